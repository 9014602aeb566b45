package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"runnerd/internal/schema/schematest"
)

// A client speaks the API with a key.
type client struct {
	t    testing.TB
	base string
	key  string
}

type object = map[string]any

// do sends a request and gives the status and the body. A gateway that is away gives status 0.
func (c client) do(method, path string, body any, headers ...string) (int, []byte) {
	c.t.Helper()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 70*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}

// get reads a document that must be there.
func (c client) get(path string, into any) {
	c.t.Helper()
	status, body := c.do("GET", path, nil)
	if status != 200 {
		c.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		c.t.Fatalf("GET %s: %v", path, err)
	}
}

// chat starts a run of the built-in workflow.
func (c client) chat(prompt string, configurable object) string {
	c.t.Helper()
	if configurable == nil {
		configurable = object{}
	}
	status, body := c.do("POST", "/v1/runs", object{"workflowId": "chat", "inputs": object{"prompt": prompt}, "configurable": configurable})
	var run struct{ RunID string }
	if err := json.Unmarshal(body, &run); status != 201 || err != nil || run.RunID == "" {
		c.t.Fatalf("create: %d %s", status, body)
	}
	return run.RunID
}

// A snapshot is what we look at of a run.
type snapshot struct {
	RunID, Status string
	Error         *struct {
		Code, Message string
		Details       object
	}
}

func (c client) run(id string) snapshot {
	c.t.Helper()
	var s snapshot
	c.get("/v1/runs/"+id, &s)
	return s
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// end waits for a run's end, through restarts of the gateway.
func (c client) end(id string, within time.Duration) snapshot {
	c.t.Helper()
	var s snapshot
	eventually(c.t, within, "run "+id+" ends", func() bool {
		status, body := c.do("GET", "/v1/runs/"+id, nil)
		return status == 200 && json.Unmarshal(body, &s) == nil && terminal(s.Status)
	})
	return s
}

// An event is what we look at of an event.
type event struct {
	Type     string
	Sequence int64
	NodeID   string
	Payload  struct {
		Outputs object
		Chunk   string
		IsLast  bool
		Error   *struct {
			Code    string
			Details object
		}
	}
}

func (c client) events(id string) []event {
	c.t.Helper()
	var page struct{ Events []json.RawMessage }
	c.get("/v1/runs/"+id+"/events/poll?timeout=1", &page)
	events := make([]event, len(page.Events))
	for i, doc := range page.Events {
		schematest.Event(c.t, doc)
		if err := json.Unmarshal(doc, &events[i]); err != nil || events[i].Sequence != int64(i) {
			c.t.Errorf("run %s: event %d has sequence %d (%v)", id, i, events[i].Sequence, err)
		}
	}
	return events
}

// text is the answer of a chat run.
func (c client) text(id string) string {
	c.t.Helper()
	for _, e := range c.events(id) {
		if e.Type == "node.completed" {
			return fmt.Sprint(e.Payload.Outputs["text"])
		}
	}
	return ""
}
