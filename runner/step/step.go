// Package step executes one dispatch frame and makes its result. It promises:
//
//   - What local policy does not allow is not run, whatever the gateway sends (faults I13). The inputs are data: they reach a
//     backend as decoded messages and nothing else of the frame does (faults H08).
//   - Every step has a private folder of its own, which is gone afterwards.
//   - Whatever leaves, partial output and error texts included, went through one way out: control sequences stripped, invalid
//     UTF-8 replaced, credentials masked, across the borders of pieces (UD-66, UD-93).
//   - A result fits into the gateway's limit. Where text had to go, the result says how much (UD-91, UD-92).
//
// A frame is judged once, by Plan, before it is accepted: a refusal then proves that nothing was started. Run needs only what
// Plan found, so that a provider that is taken away in between changes nothing.
//
// Decisions: control sequences go before credentials are looked for, because a sequence in the middle of one would hide it
// and the page would show it whole.
package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/policy"
	"runnerd/runner/provider"
)

// A Provider is what serves a provider id on this machine now.
type Provider struct {
	ID        string
	Backend   provider.Backend
	Name      string   // of the backend: claude-cli, openai-compatible, ...
	Models    []string // none: any
	Lanes     int      // steps at once; 0: no limit of its own
	AuthClass string
	State     string // provider.Ready, or why not
	Remedy    string
}

// An Executor makes plans of frames and runs them. All its fields are set before it is used.
type Executor struct {
	Provider func(id string) (Provider, bool)
	Rules    policy.Rules
	Mask     *redact.Set // knows the credentials of this machine
	Temp     string      // the folder for the steps' private folders
	Room     func() int  // bytes of the largest result frame
	Log      *slog.Logger
}

// A Plan is a frame that may be run here.
type Plan struct {
	frame    wire.Dispatch
	inputs   wire.ModelInputs
	provider Provider
}

// Provider is the id of the provider that serves the step.
func (p *Plan) Provider() Provider { return p.provider }

// Plan judges a frame. The error is what the gateway is told when the step cannot run here.
func (x *Executor) Plan(d wire.Dispatch) (*Plan, *wire.StepError) {
	if d.Kind == wire.KindTool {
		decision, reason := x.Rules.Tool(d.Tool)
		if decision == policy.Deny {
			return nil, &wire.StepError{Code: wire.CodePolicyDenied, Message: reason}
		}
		return nil, &wire.StepError{Code: wire.CodeToolError, Message: "tool " + d.Tool + " is not available on this machine"}
	}
	p, ok := x.Provider(d.Provider)
	if !ok {
		return nil, &wire.StepError{Code: wire.CodeInvalidInput, Message: "provider " + d.Provider + " is not set up on this machine"}
	}
	if decision, reason := x.Rules.Model(d.Provider, p.AuthClass); decision != policy.Allow {
		return nil, &wire.StepError{Code: wire.CodePolicyDenied, Message: reason}
	}
	if p.State != provider.Ready {
		return nil, notReady(p)
	}
	if len(p.Models) > 0 && !slices.Contains(p.Models, d.Model) {
		return nil, &wire.StepError{Code: wire.CodeInvalidInput, Message: "model: provider " + d.Provider + " has no " + d.Model + " on this machine"}
	}
	in, err := wire.Decode[wire.ModelInputs](d.Inputs)
	if err != nil {
		return nil, &wire.StepError{Code: wire.CodeInvalidInput, Message: "inputs: " + clean(err.Error())}
	}
	return &Plan{frame: d, inputs: in, provider: p}, nil
}

// notReady is the failure of a step whose provider is set up and cannot serve it now.
func notReady(p Provider) *wire.StepError {
	code := wire.CodeProviderError
	switch p.State {
	case provider.Disabled:
		code = wire.CodePolicyDenied
	case provider.NotInstalled:
		code = wire.CodeCLINotFound
	case provider.NeedsLogin:
		code = wire.CodeAuthRequired
	case provider.NeedsKey:
		code = wire.CodeCredentialMissing
	case provider.Unreachable:
		code = wire.CodeEndpointDown
	case provider.TooOld:
		code = wire.CodeCLITooOld
	}
	message := "provider " + p.ID + " is not ready: " + p.State
	if p.Remedy != "" {
		message += "; " + p.Remedy
	}
	return &wire.StepError{Code: code, Message: message, Retriable: true}
}

// Run executes a plan. It returns an output that fits into a result frame, in every case, and by then nothing that the step
// started is left. Progress gets partial output that is fit to leave the machine.
func (x *Executor) Run(ctx context.Context, p *Plan, progress func(delta string)) json.RawMessage {
	begun := time.Now()
	w := &wayOut{stream: x.Mask.Stream(), progress: progress, begun: begun}
	out := x.call(ctx, p, w)
	fault.Point("R09")
	w.close(out.Error == nil)
	out.Backend, out.AuthClass = p.provider.Name, p.provider.AuthClass
	if out.Model == "" {
		out.Model = p.frame.Model
	}
	out.Timing = &wire.Timing{FirstOutputMs: w.first.Milliseconds(), TotalMs: time.Since(begun).Milliseconds()}
	return x.Encode(p.frame.Ref(), x.sanitize(out))
}

// Encode writes an output so that the result frame of ref fits into what the gateway takes.
func (x *Executor) Encode(ref wire.StepRef, out wire.Output) json.RawMessage {
	frame, err := encode(wire.Result{RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Output: json.RawMessage("{}")})
	if err != nil {
		panic(err) // three fields
	}
	b, err := fit(out, x.Room()-len(frame)-64) // 64: what a batch puts around it
	if err != nil {
		x.Log.Error("output could not be written", "run", ref.RunID, "step", ref.StepID, "err", err)
		if b, err = encode(wire.Failed(wire.CodeProviderError, "the output could not be written as JSON")); err != nil {
			panic(err) // a constant
		}
	}
	return b
}

// call runs the backend in a folder that exists only meanwhile.
func (x *Executor) call(ctx context.Context, p *Plan, w *wayOut) wire.Output {
	dir, err := os.MkdirTemp(x.Temp, "step-*") // 0700
	if err != nil {
		return wire.Failed(wire.CodeProviderError, "no folder for the step: %v", errors.Unwrap(err))
	}
	defer x.remove(dir)
	return p.provider.Backend.Run(ctx, provider.Step{
		RunID: p.frame.RunID, StepID: p.frame.StepID, Model: p.model(), Inputs: p.inputs, Dir: dir,
	}, w.write)
}

// model is what the backend is asked for: nothing, where the frame asks for the provider's own default.
func (p *Plan) model() string {
	if p.frame.Model == wire.DefaultModel && !slices.Contains(p.provider.Models, wire.DefaultModel) {
		return ""
	}
	return p.frame.Model
}

// remove deletes a step's folder, also where the step took away its own right to.
func (x *Executor) remove(dir string) {
	err := os.RemoveAll(dir)
	if err != nil {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() || e != nil && e.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(dir)
	}
	if err != nil {
		x.Log.Warn("a step's folder could not be removed", "err", err)
	}
}

// Sweep removes the folders that steps of an earlier process left, and makes the folder for new ones.
func (x *Executor) Sweep() error {
	if err := os.MkdirAll(x.Temp, 0o700); err != nil {
		return fmt.Errorf("make folder for steps: %w", err)
	}
	old, err := os.ReadDir(x.Temp)
	if err != nil {
		return fmt.Errorf("look for folders of earlier steps: %w", err)
	}
	for _, e := range old {
		if strings.HasPrefix(e.Name(), "step-") {
			x.remove(filepath.Join(x.Temp, e.Name()))
		}
	}
	return nil
}
