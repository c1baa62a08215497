package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/tool/toolconfirmation"
)

// For each request on standard input, what ADK Go's package reads in it. Each is also made by this package once more:
// with the original call as a typed value, which JSON then makes a map.
func vectors() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked *genai.FunctionCall
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		found, err := toolconfirmation.OriginalCallFrom(asked)
		told := plain{"call": found}
		if err != nil {
			told["error"] = err.Error()
		} else {
			var confirmation toolconfirmation.ToolConfirmation
			raw := must(json.Marshal(asked.Args["toolConfirmation"]))
			if err := json.Unmarshal(raw, &confirmation); err != nil {
				panic(err)
			}
			arguments := plain{"originalFunctionCall": found, "toolConfirmation": confirmation}
			request := &genai.FunctionCall{ID: asked.ID, Name: toolconfirmation.FunctionCallName, Args: arguments}
			typed := must(toolconfirmation.OriginalCallFrom(request))
			told["same"] = typed == found
			told["request"] = request
			told["confirmation"] = confirmation
		}
		fmt.Println(string(must(json.Marshal(told))))
	}
}
