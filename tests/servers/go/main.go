// A real ADK Go server: its own REST handler, its own sessions in SQLite. Its model is the one of all these servers
// (tests/support/foreign/wishes.py), which runs beside it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/server/adkrest"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/mcptoolset"
)

type plain = map[string]any

func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func command(variable string) *exec.Cmd {
	var words []string
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &words); err != nil {
		panic(err)
	}
	made := exec.Command(words[0], words[1:]...)
	made.Stderr = os.Stderr
	return made
}

// The model: a line to the process of MODEL, and a line back.

type wishes struct {
	mutex sync.Mutex
	to    *json.Encoder
	from  *bufio.Reader
}

func begun() *wishes {
	process := command("MODEL")
	to, from := must(process.StdinPipe()), must(process.StdoutPipe())
	if err := process.Start(); err != nil {
		panic(err)
	}
	return &wishes{to: json.NewEncoder(to), from: bufio.NewReader(from)}
}

func (w *wishes) reply(agent string, contents []*genai.Content) (parts []*genai.Part, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err = w.to.Encode(plain{"agent": agent, "contents": contents}); err != nil {
		return nil, err
	}
	line, err := w.from.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return parts, json.Unmarshal(line, &parts)
}

type obliging struct {
	agent string
	*wishes
}

func (o obliging) Name() string { return "obliging" }

func (o obliging) GenerateContent(_ context.Context, asked *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		parts, err := o.reply(o.agent, asked.Contents)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&model.LLMResponse{Content: genai.NewContentFromParts(parts, genai.RoleModel)}, nil)
	}
}

// The tools: what they do stands in TOOL_LOG.

func note(tool string, what plain) {
	what["tool"] = tool
	file := must(os.OpenFile(os.Getenv("TOOL_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	defer file.Close()
	must(file.Write(append(must(json.Marshal(what)), '\n')))
}

type amount struct {
	Amount int `json:"amount"`
}
type service struct {
	Service string `json:"service"`
}
type word struct {
	Word string `json:"word"`
}
type target struct {
	Target string `json:"target"`
}
type disk struct {
	Disk string `json:"disk"`
}
type topic struct {
	Topic string `json:"topic"`
}
type days struct {
	Days int `json:"days"`
}

func made[Args any](name string, gate any, run func(agent.Context, Args) (plain, error)) tool.Tool {
	config := functiontool.Config{Name: name, Description: name, RequireConfirmationProvider: gate}
	config.RequireConfirmation = gate == true
	if config.RequireConfirmation || gate == false {
		config.RequireConfirmationProvider = nil
	}
	return must(functiontool.New(config, run))
}

func tools() []tool.Tool {
	return []tool.Tool{
		made("reimburse", func(given amount) bool { return given.Amount > 1000 }, func(_ agent.Context, given amount) (plain, error) {
			note("reimburse", plain{"amount": given.Amount})
			return plain{"paid": given.Amount}, nil
		}),
		made("deploy", true, func(_ agent.Context, given service) (plain, error) {
			note("deploy", plain{"service": given.Service})
			return plain{"deployed": given.Service}, nil
		}),
		made("linger", true, func(_ agent.Context, given word) (plain, error) {
			note("linger", plain{"begun": given.Word})
			must(os.ReadFile(os.Getenv("TOOL_FIFO") + "-" + given.Word))
			note("linger", plain{"ended": given.Word})
			return plain{"word": given.Word}, nil
		}),
		made("break_down", true, func(_ agent.Context, given word) (plain, error) {
			note("break_down", plain{"word": given.Word})
			return nil, fmt.Errorf("no %s today", given.Word)
		}),
		made("launch", func(target) bool {
			_, err := os.Stat(os.Getenv("TOOL_LOG") + ".armed")
			return err == nil
		}, func(_ agent.Context, given target) (plain, error) {
			note("launch", plain{"target": given.Target})
			return plain{"launched": given.Target}, nil
		}),
		made("wipe", false, func(at agent.Context, given disk) (plain, error) {
			if at.ToolConfirmation() == nil {
				return plain{"status": "asked"}, at.RequestConfirmation("Wipe it?", nil)
			}
			note("wipe", plain{"disk": given.Disk})
			return plain{"wiped": given.Disk}, nil
		}),
		made("lookup", false, func(_ agent.Context, given topic) (plain, error) {
			return plain{"topic": given.Topic}, nil
		}),
		made("request_time_off", false, func(at agent.Context, given days) (plain, error) {
			confirmation := at.ToolConfirmation()
			if confirmation == nil {
				err := at.RequestConfirmation("How many days?", plain{"approved_days": 0})
				return plain{"status": "Manager approval is required."}, err
			}
			payload, _ := confirmation.Payload.(plain)
			wanted, known := payload["approved_days"].(float64)
			if !known {
				return nil, errors.New("no approved_days")
			}
			approved := min(int(wanted), given.Days)
			if approved == 0 {
				return plain{"status": "The time off request is rejected.", "approved_days": 0}, nil
			}
			note("request_time_off", plain{"days": approved})
			return plain{"approved_days": approved}, nil
		}),
	}
}

func main() {
	if len(os.Args) > 1 {
		vectors()
		return
	}
	speaks := begun()
	made := func(name string, more llmagent.Config) agent.Agent {
		more.Name, more.Description, more.Model = name, name, obliging{name, speaks}
		return must(llmagent.New(more))
	}
	files := must(mcptoolset.New(mcptoolset.Config{
		Transport: &mcp.CommandTransport{Command: command("MCP")}, RequireConfirmation: true,
	}))
	branches := []agent.Agent{made("east", llmagent.Config{Tools: tools()}), made("west", llmagent.Config{Tools: tools()})}
	agents := must(agent.NewMultiLoader(
		made("clerk", llmagent.Config{Tools: tools()}),
		made("filer", llmagent.Config{Tools: tools(), Toolsets: []tool.Toolset{files}}),
		made("front", llmagent.Config{SubAgents: []agent.Agent{made("payer", llmagent.Config{Tools: tools()})}}),
		must(parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "fork", SubAgents: branches}})),
	))
	sessions := must(database.NewSessionService(sqlite.Open(strings.TrimPrefix(os.Getenv("SESSIONS"), "sqlite:///")), &gorm.Config{
		Logger: logger.Discard, // it would fill standard output, which nobody reads
	}))
	if err := database.AutoMigrate(sessions); err != nil {
		panic(err)
	}
	served := must(adkrest.NewServer(adkrest.ServerConfig{
		SessionService: sessions, AgentLoader: agents, SSEWriteTimeout: 2 * time.Minute, // as its launcher has it
	}))
	listening := must(net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT")))
	fmt.Println(listening.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listening, served))
}
