package engine

import "fmt"

// chatDefinition is one model step from a prompt. Provider and model come from configurable ai.provider and model, else from the runner.
const chatDefinition = `{
  "id": "chat", "name": "Chat", "version": "1.0",
  "description": "One model step: the answer to a prompt. Provider and model may be chosen by configurable ai.provider and model.",
  "nodes": [
    { "id": "chat", "typeId": "core.ai.callPrompt", "name": "Answer", "position": { "x": 0, "y": 0 }, "config": {},
      "inputs": {
        "prompt": { "type": "variable", "variableName": "prompt" },
        "system": { "type": "variable", "variableName": "system", "optional": true }
      } }
  ],
  "edges": [],
  "triggers": [ { "id": "manual", "type": "manual", "enabled": true } ],
  "variables": [
    { "name": "prompt", "type": "string", "description": "What to answer.", "required": true },
    { "name": "system", "type": "string", "description": "How to answer." }
  ],
  "metadata": { "tags": ["builtin"] },
  "settings": { "timeout": 0, "maxRetries": 0 }
}`

// Builtin is the workflow "chat", which is there without any file: its input is prompt, and system if wanted; its outputs are
// those of a model step, {text, ...}.
func Builtin() *Workflow {
	wf, err := Parse([]byte(chatDefinition))
	if err != nil {
		panic(fmt.Sprintf("the built-in workflow is not valid: %v", err))
	}
	return wf
}
