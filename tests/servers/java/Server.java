// A real ADK Java server: its own web server, its own sessions in memory. Its model is the one of all these servers
// (tests/support/foreign/wishes.py), which runs beside it.

import com.google.adk.agents.BaseAgent;
import com.google.adk.agents.Callbacks;
import com.google.adk.agents.LlmAgent;
import com.google.adk.agents.ParallelAgent;
import com.google.adk.models.BaseLlm;
import com.google.adk.models.BaseLlmConnection;
import com.google.adk.models.LlmRequest;
import com.google.adk.models.LlmResponse;
import com.google.adk.tools.FunctionTool;
import com.google.adk.tools.ToolContext;
import com.google.adk.tools.mcp.McpToolset;
import com.google.adk.web.AdkWebServer;
import com.google.genai.types.Content;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.modelcontextprotocol.client.transport.ServerParameters;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Maybe;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public class Server {
  static final ObjectMapper JSON = new ObjectMapper();

  static List<String> command(String variable) throws Exception {
    return List.of(JSON.readValue(System.getenv(variable), String[].class));
  }

  /** A line to the process of MODEL, and a line back. */
  static class Wishes {
    final PrintStream to;
    final BufferedReader from;

    Wishes() throws Exception {
      var process = new ProcessBuilder(command("MODEL")).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      to = new PrintStream(process.getOutputStream(), true);
      from = process.inputReader();
    }

    synchronized Content reply(String agent, List<Content> contents) {
      try {
        var shown = new ArrayList<Object>();
        for (Content content : contents) shown.add(JSON.readTree(content.toJson()));
        to.println(JSON.writeValueAsString(Map.of("agent", agent, "contents", shown)));
        return Content.fromJson("{\"role\": \"model\", \"parts\": " + from.readLine() + "}");
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
  }

  static class Obliging extends BaseLlm {
    final String agent;
    final Wishes wishes;

    Obliging(String agent, Wishes wishes) {
      super("obliging");
      this.agent = agent;
      this.wishes = wishes;
    }

    @Override
    public Flowable<LlmResponse> generateContent(LlmRequest asked, boolean stream) {
      return Flowable.fromCallable(
          () -> LlmResponse.builder().content(wishes.reply(agent, asked.contents())).build());
    }

    @Override
    public BaseLlmConnection connect(LlmRequest asked) {
      throw new UnsupportedOperationException("no live mode here");
    }
  }

  /** What the tools do stands in TOOL_LOG. */
  static void note(String tool, String what, Object value) {
    var line = new LinkedHashMap<String, Object>();
    line.put("tool", tool);
    line.put(what, value);
    try {
      Files.writeString(
          Path.of(System.getenv("TOOL_LOG")), JSON.writeValueAsString(line) + "\n",
          StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** A gate is yes or no in ADK Java. A tool with a threshold asks in its body. */
  static Map<String, Object> asked(ToolContext toolContext, String hint, Object payload) {
    var given = toolContext.toolConfirmation();
    if (given.isPresent()) return given.get().confirmed() ? null : Map.of("error", "denied");
    toolContext.requestConfirmation(hint, payload);
    return Map.of("status", "Manager approval is required.");
  }

  public static Map<String, Object> reimburse(int amount, ToolContext toolContext) {
    var waits = amount > 1000 ? asked(toolContext, "Pay it?", null) : null;
    if (waits != null) return waits;
    note("reimburse", "amount", amount);
    return Map.of("paid", amount);
  }

  public static Map<String, Object> deploy(String service) {
    note("deploy", "service", service);
    return Map.of("deployed", service);
  }

  public static Map<String, Object> linger(String word) throws Exception {
    note("linger", "begun", word);
    Files.readAllBytes(Path.of(System.getenv("TOOL_FIFO") + "-" + word));
    note("linger", "ended", word);
    return Map.of("word", word);
  }

  public static Map<String, Object> break_down(String word) {
    note("break_down", "word", word);
    throw new IllegalStateException("no " + word + " today");
  }

  public static Map<String, Object> lookup(String topic) {
    return Map.of("topic", topic);
  }

  public static Map<String, Object> request_time_off(int days, ToolContext toolContext) {
    var waits = asked(toolContext, "How many days?", Map.of("approved_days", 0));
    if (waits != null) return waits;
    var payload = (Map<?, ?>) toolContext.toolConfirmation().get().payload();
    int approved = Math.min(((Number) payload.get("approved_days")).intValue(), days);
    note("request_time_off", "days", approved);
    return Map.of("approved_days", approved);
  }

  static List<Object> tools() {
    var made = new ArrayList<Object>();
    for (String name : List.of("deploy", "linger", "break_down")) made.add(FunctionTool.create(Server.class, name, true));
    for (String name : List.of("reimburse", "lookup", "request_time_off")) made.add(FunctionTool.create(Server.class, name));
    return made;
  }

  static LlmAgent.Builder agent(String name, Wishes wishes) {
    return LlmAgent.builder().name(name).description(name).model(new Obliging(name, wishes));
  }

  public static void main(String[] ignored) throws Exception {
    var said = System.out;
    System.setOut(System.err);
    var wishes = new Wishes();
    var words = command("MCP");
    var files = new McpToolset(
        ServerParameters.builder(words.get(0)).args(words.subList(1, words.size())).env(System.getenv()).build());
    var withFiles = tools();
    withFiles.add(files);
    // Its MCP tools have no gate: a callback of the agent asks.
    Callbacks.BeforeToolCallback gate = (context, tool, args, toolContext) -> {
      if (!tool.name().equals("delete_file")) return Maybe.empty();
      var waits = asked(toolContext, "Delete it?", null);
      return waits == null ? Maybe.empty() : Maybe.just(waits);
    };
    BaseAgent[] roots = {
      agent("clerk", wishes).tools(tools()).build(),
      agent("filer", wishes).tools(withFiles).beforeToolCallback(gate).build(),
      agent("front", wishes).subAgents(agent("payer", wishes).tools(tools()).build()).build(),
      ParallelAgent.builder().name("fork").subAgents(
          agent("east", wishes).tools(tools()).build(), agent("west", wishes).tools(tools()).build()).build(),
    };
    var wanted = System.getenv("PORT");
    if (wanted == null || wanted.equals("0")) {
      try (var free = new ServerSocket(0)) {
        wanted = String.valueOf(free.getLocalPort());
      }
    }
    System.setProperty("server.port", wanted);
    System.setProperty("server.address", "127.0.0.1");
    AdkWebServer.start(roots);
    said.println(wanted);
  }
}
