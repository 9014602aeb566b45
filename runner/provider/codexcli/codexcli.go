// Package codexcli serves a provider with the `codex` program and the login that is in it, or a stored key. The program's own
// tools are switched off and its sandbox is read-only: it answers with text and nothing else (design, section 6).
package codexcli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/vendorcli"
)

// Name is the backend's name.
const Name = "codex-cli"

// Backend runs one `codex exec` per step.
type Backend struct{ Config vendorcli.Config }

var _ provider.Backend = Backend{}

// features are what could act on the machine or reach elsewhere. A version that does not know one ignores it.
var features = []string{
	"apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "multi_agent", "plugins", "remote_plugin",
	"shell_snapshot", "shell_tool", "skill_search", "sleep_tool", "tool_suggest", "unified_exec", "view_image", "worktrees",
}

const neutral = "You are a helpful assistant. Answer with text only."

func args(system string) []string {
	a := []string{
		"exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config", "--ignore-rules",
		"--sandbox", "read-only", "--color", "never", "-c", `web_search="disabled"`, "-c", "model_instructions_file=" + strconv.Quote(system),
	}
	for _, f := range features {
		a = append(a, "-c", "features."+f+"=false")
	}
	return a
}

type line struct {
	Type    string
	Message string
	Item    struct{ Type, Text, Message string }
	Error   struct{ Message string }
	Usage   *struct {
		In     int64 `json:"input_tokens"`
		Out    int64 `json:"output_tokens"`
		Cached int64 `json:"cached_input_tokens"`
	}
}

// Run asks once. The program prints a message when it is complete, so progress comes in whole messages (UD-53).
func (b Backend) Run(ctx context.Context, step provider.Step, progress func(string)) wire.Output {
	if e := provider.OnlyText(step.Inputs); e != nil {
		return wire.Output{Error: e}
	}
	system, prompt := provider.Transcript(step.Inputs)
	if system == "" {
		system = neutral
	}
	file := filepath.Join(step.Dir, "system.md") // not on the command line (UD-46)
	if err := os.WriteFile(file, []byte(system), 0o600); err != nil {
		return wire.Failed(wire.CodeCLISpawnFailed, "write the system prompt: %v", err)
	}
	env, class, e := b.Config.Login(ctx, "CODEX_API_KEY", map[string]string{})
	if e != nil {
		return wire.Output{Error: e}
	}
	call := vendorcli.Call{Args: args(file), Env: env, Stdin: prompt, Dir: step.Dir}
	if b.Config.BaseURL != "" {
		// Retries are off: each may be a paid turn.
		call.Args = append(call.Args, "-c", `model_provider="runnerd"`, "-c", fmt.Sprintf(
			`model_providers.runnerd={name="runnerd",base_url=%s,env_key="CODEX_API_KEY",wire_api="responses",request_max_retries=0,stream_max_retries=0}`,
			strconv.Quote(b.Config.BaseURL)))
	}
	if step.Model != "" {
		call.Args = append(call.Args, "--model", step.Model)
	}
	call.Args = append(call.Args, "-")
	var text, said string
	var usage *wire.Usage
	done := false
	call.Line = func(doc json.RawMessage) {
		var l line
		if json.Unmarshal(doc, &l) != nil {
			return // of a shape we do not know: noise
		}
		switch l.Type {
		case "item.completed":
			if l.Item.Type == "agent_message" {
				if text != "" {
					l.Item.Text = "\n\n" + l.Item.Text
				}
				text += l.Item.Text
				progress(l.Item.Text)
			}
		case "turn.completed":
			done = true
			if l.Usage != nil {
				usage = &wire.Usage{InputTokens: l.Usage.In, OutputTokens: l.Usage.Out, CachedTokens: l.Usage.Cached}
			}
		case "turn.failed":
			done, said = false, l.Error.Message
		case "error":
			said = l.Message
		}
	}
	end, e := b.Config.Run(ctx, call)
	out := wire.Output{Text: text, Model: step.Model, Backend: Name, AuthClass: class, Exit: vendorcli.Exit(end), Usage: usage}
	switch {
	case e != nil:
		out.Error = e
	case !done || end.Code != 0:
		out.Error = b.Config.Fail(end, said).Error
	default:
		out.FinishReason = "stop"
	}
	return out
}

// Probe asks for the version and the login.
func (b Backend) Probe(ctx context.Context) provider.Status {
	return b.Config.Probe(ctx, vendorcli.Probe{
		Version: []string{"--version"}, Status: []string{"login", "status"}, Login: "codex login",
		Install: "install it with `npm install -g @openai/codex`, or set its path with `runnerd provider enable`",
	})
}
