package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"runnerd/gateway/engine"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// modes is a union of stream modes (wire 6.3).
type modes uint8

const (
	modeUpdates modes = 1 << iota
	modeMessages
	modeDebug
)

func modeNames() []string { return []string{"updates", "messages", "debug"} }

// typeMessageChunk is what output.chunk is called, and shaped like, where chunks are shown.
const typeMessageChunk = "ai.message.chunk"

// parseModes reads streamMode; absent means updates.
func parseModes(values []string) (modes, error) {
	if len(values) == 0 {
		return modeUpdates, nil
	}
	var m modes
	for name := range strings.SplitSeq(values[0], ",") {
		i := slices.Index(modeNames(), name)
		if i < 0 || len(values) > 1 {
			return 0, &httpapi.Problem{Status: http.StatusBadRequest, Code: codeStreamMode, Message: "streamMode names no combination of modes that is served",
				Details: map[string]any{"supported": modeNames()}}
		}
		m |= 1 << i
	}
	return m, nil
}

// A frame is one event of a stream.
type frame struct {
	seq  int64
	kind string
	data []byte
}

// show gives the frame of an event, if the modes show it.
func (m modes) show(e store.Event) (frame, bool, error) {
	switch {
	case e.Type == engine.TypeOutputChunk && m&(modeMessages|modeDebug) != 0:
		data, err := messageChunk(e.Doc)
		return frame{e.Seq, typeMessageChunk, data}, err == nil, err
	case e.Type == engine.TypeOutputChunk:
		return frame{}, false, nil
	case m&modeDebug != 0, m&modeUpdates != 0 && inUpdates(e.Type):
		return frame{e.Seq, e.Type, e.Doc}, true, nil
	}
	return frame{}, false, nil
}

// inUpdates is the column of wire 6.3's table.
func inUpdates(kind string) bool {
	switch kind {
	case "run.started", "run.completed", "run.failed", "run.cancelled", "run.paused", "run.resumed",
		"node.completed", "node.failed", "node.skipped", "node.suspended", "node.dispatched",
		"approval.requested", "approval.received", "interrupt.requested", "interrupt.resolved",
		"artifact.created", "workspace.updated":
		return true
	}
	family, _, _ := strings.Cut(kind, ".")
	return family == "clarification" || family == "eval" || family == "deployment"
}

// terminal reports whether an event is a run's last.
func terminal(kind string) bool {
	return kind == engine.TypeRunCompleted || kind == engine.TypeRunFailed || kind == engine.TypeRunCancelled
}

// messageChunk makes a chunk's frame of the event that is in the log: its payload, with the members that wire 6.3 lists.
func messageChunk(doc []byte) ([]byte, error) {
	var e struct {
		Payload struct {
			NodeID string          `json:"nodeId"`
			RunID  string          `json:"runId"`
			Chunk  string          `json:"chunk"`
			IsLast bool            `json:"isLast"`
			Meta   json.RawMessage `json:"meta,omitempty"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(doc, &e); err != nil {
		return nil, err
	}
	return json.Marshal(e.Payload)
}
