package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// options is what configurable says (wire 5.5 and, for runner.*, design section 4). Other keys are the workflow's own.
type options struct {
	recursionLimit  int
	runTimeout      time.Duration
	provider, model string
	temperature     *float64
	maxTokens       int
	prompts         map[string]string
	mock            *mock // answers instead of any model
	runner          string
	wait, timeout   time.Duration
}

const (
	keyRunner = "runner.id"
	keyMock   = "mockProvider"
)

func (o *options) stepTimeout() time.Duration { return cmp.Or(o.timeout, wire.StepTimeout) }
func (o *options) queueWait() time.Duration   { return cmp.Or(o.wait, wire.QueueWait) }

func readOptions(configurable json.RawMessage) (options, error) {
	var r reader
	if len(configurable) == 0 {
		return options{}, nil
	}
	c := r.object("configurable", jsontext.Value(configurable))
	ms := func(name string, lo, hi int64) time.Duration { // what a duration cannot hold is beyond any ceiling anyway
		return time.Duration(min(c.whole(name, lo, hi), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	o := options{
		recursionLimit: int(c.whole("recursionLimit", 1, math.MaxInt64)),
		runTimeout:     ms("runTimeoutMs", 1, math.MaxInt64),
		provider:       c.text("ai.provider", 1, wire.MaxID),
		model:          c.text("model", 1, wire.MaxID),
		maxTokens:      int(c.whole("maxTokens", 1, math.MaxInt32)),
		runner:         c.text(keyRunner, 1, wire.MaxID),
		wait:           ms("runner.waitMs", 0, wire.QueueWaitMax.Milliseconds()),
		timeout:        ms("runner.timeoutMs", 1, wire.StepTimeoutMax.Milliseconds()),
	}
	if c.has("runner.waitMs") && o.wait == 0 {
		o.wait = time.Millisecond // "now or never", which the zero value does not say
	}
	c.text("ai.credentialRef", 1, 1024)
	if raw, ok := c.members["temperature"]; ok {
		if f, ok := numberOf(raw); ok && f >= 0 && f <= 2 {
			o.temperature = &f
		} else {
			c.fail(c.at("temperature"), "must be a number from 0 to 2")
		}
	}
	prompts := c.child("promptOverrides")
	for _, name := range slices.Sorted(maps.Keys(prompts.members)) {
		text, ok := textOf(prompts.members[name])
		if !ok {
			c.fail(prompts.at(name), "must be a string")
		}
		if o.prompts == nil {
			o.prompts = map[string]string{}
		}
		o.prompts[name] = text
	}
	o.mock = readMock(c)
	return o, errors.Join(r.errs...)
}

// CheckCreate says what is wrong with the inputs and the configurable of a run before there is one: what wire 5.1 and 5.5 make
// a 400. Either may be empty. The error joins every mistake, each a *wire.FieldError with the path of its member.
func CheckCreate(wf *Workflow, inputs, configurable json.RawMessage) error {
	var r reader
	in := r.open("inputs", inputs)
	for _, name := range slices.Sorted(maps.Keys(wf.variables)) {
		if v := wf.variables[name]; v.required && v.value == nil && !in.has(name) && (in.members != nil || len(inputs) == 0) {
			r.fail(in.at(name), "is required")
		}
	}
	c := r.open("configurable", configurable)
	errs := r.errs
	if c.members != nil {
		_, err := readOptions(configurable)
		errs = append(errs, err, wf.checkOptions(configurable))
	} else if len(configurable) == 0 {
		errs = append(errs, wf.checkOptions([]byte("{}")))
	}
	return errors.Join(errs...)
}

// open is an object that a client may leave out, with the bounds of what clients send.
func (r *reader) open(path string, doc json.RawMessage) object {
	raw := jsontext.Value(doc)
	switch {
	case len(doc) == 0:
		return object{r, path, nil}
	case !raw.IsValid():
		r.fail(path, "must be valid JSON in UTF-8 without repeated members")
	case depthOf(doc) > maxDepth:
		r.fail(path, "must not be nested deeper than %d levels", maxDepth)
	default:
		return r.object(path, raw)
	}
	return object{r, path, nil}
}

// checkOptions holds configurable against the workflow's own schema.
func (wf *Workflow) checkOptions(configurable json.RawMessage) error {
	if wf.options == nil {
		return nil
	}
	err := wf.options.Validate(configurable)
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var under []error
		for _, err := range all.Unwrap() {
			field := "configurable"
			e, ok := errors.AsType[*wire.FieldError](err)
			if ok && e.Field != "document" {
				field += "." + e.Field
			}
			if ok {
				err = &wire.FieldError{Field: field, Reason: e.Reason + ", by the workflow's configurableSchema"}
			}
			under = append(under, err)
		}
		return errors.Join(under[:min(len(under), maxMistakes)]...)
	}
	return err
}
