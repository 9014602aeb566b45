// Package claudecli serves a provider with the `claude` program and the login that is in it, or a stored key. The program's
// own tools, settings, memory and servers are switched off: it answers with text and nothing else (design, section 6).
package claudecli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/vendorcli"
)

// Name is the backend's name.
const Name = "claude-cli"

// Backend runs one `claude --print` per step.
type Backend struct{ Config vendorcli.Config }

var _ provider.Backend = Backend{}

// args switch off whatever could act on the machine, ask a question, or keep the conversation.
func args(system string) []string {
	return []string{
		"--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--input-format", "text",
		"--tools", "", "--strict-mcp-config", "--setting-sources", "", "--disable-slash-commands", "--no-session-persistence",
		"--permission-mode", "dontAsk", "--no-chrome", "--system-prompt-file", system,
	}
}

const neutral = "You are a helpful assistant. Answer with text only."

// A line is what we read of one line of stream-json.
type line struct {
	Type  string
	Event struct {
		Type  string
		Delta struct{ Type, Text string }
	}
	Subtype   string
	IsError   bool `json:"is_error"`
	Result    *string
	StopError string  `json:"error"`
	Stop      string  `json:"stop_reason"`
	Cost      float64 `json:"total_cost_usd"`
	Usage     *usage
	Model     string
}

type usage struct {
	In     int64 `json:"input_tokens"`
	Out    int64 `json:"output_tokens"`
	Cached int64 `json:"cache_read_input_tokens"`
	Made   int64 `json:"cache_creation_input_tokens"`
}

// Run asks once. Retries of the program itself are off, because each may be a paid turn.
func (b Backend) Run(ctx context.Context, step provider.Step, progress func(string)) wire.Output {
	if e := provider.OnlyText(step.Inputs); e != nil {
		return wire.Output{Error: e}
	}
	system, prompt := provider.Transcript(step.Inputs)
	if system == "" {
		system = neutral
	}
	file := filepath.Join(step.Dir, "system.txt") // not on the command line (UD-46)
	if err := os.WriteFile(file, []byte(system), 0o600); err != nil {
		return wire.Failed(wire.CodeCLISpawnFailed, "write the system prompt: %v", err)
	}
	env, class, e := b.Config.Login(ctx, "ANTHROPIC_API_KEY", map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "0",
		"CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
	})
	if e != nil {
		return wire.Output{Error: e}
	}
	if b.Config.BaseURL != "" {
		env["ANTHROPIC_BASE_URL"] = b.Config.BaseURL
	}
	call := vendorcli.Call{Args: args(file), Env: env, Stdin: prompt, Dir: step.Dir}
	if step.Model != "" {
		call.Args = append(call.Args, "--model", step.Model)
	}
	var last line
	model, partial := step.Model, ""
	call.Line = func(doc json.RawMessage) {
		var l line
		if json.Unmarshal(doc, &l) != nil {
			return // of a shape we do not know: noise
		}
		switch l.Type {
		case "system":
			if l.Model != "" {
				model = l.Model
			}
		case "stream_event":
			if l.Event.Delta.Type == "text_delta" {
				partial += l.Event.Delta.Text
				progress(l.Event.Delta.Text)
			}
		case "result":
			last = l
		}
	}
	end, e := b.Config.Run(ctx, call)
	out := wire.Output{Model: model, Backend: Name, AuthClass: class, Exit: vendorcli.Exit(end), Text: partial}
	if last.Usage != nil {
		out.Usage = &wire.Usage{
			InputTokens: last.Usage.In + last.Usage.Cached + last.Usage.Made, OutputTokens: last.Usage.Out,
			CachedTokens: last.Usage.Cached, CostUSD: last.Cost,
		}
	}
	switch {
	case e != nil:
		out.Error = e
	case last.Result == nil || last.IsError || end.Code != 0:
		said := last.StopError
		if last.Result != nil {
			said = *last.Result
		}
		out.Error = b.Config.Fail(end, said).Error
	default:
		out.Text, out.FinishReason = *last.Result, finish(last.Stop)
	}
	return out
}

func finish(stop string) string {
	switch stop {
	case "max_tokens":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return "stop"
}

// Probe asks for the version and the login.
func (b Backend) Probe(ctx context.Context) provider.Status {
	s := b.Config.Probe(ctx, vendorcli.Probe{
		Version: []string{"--version"}, Status: []string{"auth", "status"}, Login: "claude auth login",
		Install: "install it with `npm install -g @anthropic-ai/claude-code`, or set its path with `runnerd provider enable`",
	})
	s.Models = []string{"opus", "sonnet", "haiku"} // the program's own names for its latest models
	return s
}
