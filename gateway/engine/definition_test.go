package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"runnerd/gateway/engine"
)

// workflow writes a definition from nodes "id type {config and other members}" and edges "from>to rule {other members}".
func workflow(tb failer, more string, nodes, edges []string) *engine.Workflow {
	tb.Helper()
	wf, err := engine.Parse([]byte(definition(more, nodes, edges)))
	if err != nil {
		tb.Fatalf("parse: %v", err)
	}
	return wf
}

func definition(more string, nodes, edges []string) string {
	doc := map[string]any{
		"id": "w", "name": "W", "version": "1.0", "nodes": []any{}, "edges": []any{}, "triggers": []any{}, "variables": []any{},
		"metadata": map[string]any{}, "settings": map[string]any{},
	}
	var list []any
	for _, line := range nodes {
		id, rest, _ := strings.Cut(line, " ")
		typ, members, _ := strings.Cut(rest, " ")
		n := map[string]any{"id": id, "typeId": typ, "name": id, "position": map[string]any{"x": 0, "y": 0}, "config": map[string]any{}, "inputs": map[string]any{}}
		merge(n, members)
		list = append(list, n)
	}
	doc["nodes"], list = list, nil
	for i, line := range edges {
		ends, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(ends, ">")
		e := map[string]any{"id": fmt.Sprintf("e%d", i), "sourceNodeId": from, "targetNodeId": to}
		rule, members, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(rule, "{") {
			rule, members = "", rest
		}
		if rule != "" {
			e["triggerRule"] = rule
		}
		merge(e, members)
		list = append(list, e)
	}
	if list != nil {
		doc["edges"] = list
	}
	merge(doc, more)
	out, _ := json.Marshal(doc)
	return string(out)
}

func merge(into map[string]any, members string) {
	if members == "" {
		return
	}
	d := json.NewDecoder(strings.NewReader(members))
	d.UseNumber()
	if err := d.Decode(&into); err != nil {
		panic(fmt.Sprintf("%s: %v", members, err))
	}
}
