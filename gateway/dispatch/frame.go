package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// A Frame is what a stream sends: the same bytes for the same offer, each time (faults.md I9).
type Frame struct {
	Seq  int64
	Data []byte
}

// frameOf builds the frame of a step's latest offer. The inputs go in as they are stored.
func frameOf(s store.Step) Frame {
	b := make([]byte, 0, len(s.Inputs)+256)
	text := func(member, value string) {
		if value != "" {
			b = append(append(append(b, '"'), member...), `":`...)
			b = append(appendText(b, value), ',')
		}
	}
	b = append(b, '{')
	text("runId", string(s.Run))
	text("stepId", string(s.ID))
	b = append(strconv.AppendInt(append(b, `"seq":`...), s.Seq, 10), ',')
	text("kind", s.Kind)
	text("provider", s.UseProv)
	text("model", s.UseModel)
	text("tool", s.Tool)
	b = append(append(b, `"inputs":`...), s.Inputs...)
	return Frame{s.Seq, append(b, '}')}
}

func appendText(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("a string has no JSON form: " + err.Error())
	}
	return append(b, q...)
}

// prepare checks once what no offer may have to refuse: that the frame is one which a runner can read, on one line, holds
// nothing that looks like a credential, and fits whatever seq, provider and model it will name.
func prepare(s store.Step, secret func([]byte) bool) (store.Step, *wire.StepError) {
	refuse := func(code wire.Code, format string, args ...any) (store.Step, *wire.StepError) {
		return s, &wire.StepError{Code: code, Message: fmt.Sprintf(format, args...)}
	}
	for _, name := range []string{string(s.Run), string(s.ID), s.Provider, s.Model, s.Tool} {
		if !utf8.ValidString(name) {
			return refuse(wire.CodeInvalidInput, "the step cannot be sent: a name is not valid UTF-8")
		}
	}
	if bytes.ContainsAny(s.Inputs, "\r\n") {
		var line bytes.Buffer
		if err := json.Compact(&line, s.Inputs); err != nil {
			return refuse(wire.CodeInvalidInput, "the step's inputs are not valid JSON")
		}
		s.Inputs = line.Bytes()
	}
	largest := s
	largest.Seq = math.MaxInt64
	if s.Kind == wire.KindModel {
		longest := strings.Repeat("<", wire.MaxID) // quoted, it takes the most bytes that a name can
		largest.UseProv, largest.UseModel = cmp.Or(s.Provider, longest), cmp.Or(s.Model, longest)
	}
	frame := frameOf(largest).Data
	if len(frame) > wire.MaxFrame {
		return refuse(wire.CodeFrameTooLarge, "the step's frame has %d bytes; at most %d can be sent", len(frame), wire.MaxFrame)
	}
	if _, err := wire.Decode[wire.Dispatch](frame); err != nil {
		return refuse(wire.CodeInvalidInput, "the step cannot be sent: %v", err)
	}
	if secret(frame) {
		return refuse(wire.CodePolicyDenied, "the step's inputs hold what looks like a credential; nothing was sent")
	}
	return s, nil
}
