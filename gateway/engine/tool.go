package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// The names of the tools that the HTTP nodes call.
const (
	toolFetch   = "http.fetch"
	toolOpenAPI = "http.openapi-call"
)

// tool is the name of the tool that a node calls, empty when it calls none. Only the config names it: no value chooses a
// tool, so no untrusted one does (wire section 13).
func (n *node) tool() string {
	if kind, _ := typeOf(n.typeID); kind.tool != nil {
		return kind.tool(n)
	}
	return ""
}

func configuredTool(n *node) string { return firstText(n.config, "tool") }

// mcpTool is mcp.<server>.<tool> (design, section 6), of the node's config or, for a model node, of config.mcp. A definition
// that leaves the server to the host means the runner's server "default".
func mcpTool(n *node) string {
	config := n.mcp()
	if name := firstText(config, "tool", "toolName", "name"); name != "" {
		return "mcp." + cmp.Or(firstText(config, "server", "serverId", "serverName"), "default") + "." + name
	}
	return ""
}

func (n *node) mcp() map[string]json.RawMessage {
	if raw, ok := n.config["mcp"]; ok {
		config, _ := members(raw) // what is not an object names no tool
		return config
	}
	if n.typeID == typeMCP {
		return n.config
	}
	return nil
}

func firstText(config map[string]json.RawMessage, names ...string) string {
	for _, name := range names {
		if s, ok := textOf(config[name]); ok && s != "" {
			return s
		}
	}
	return ""
}

// toolStep calls the node's tool with config.arguments. Members of the input "arguments" replace those, and every other input
// is the argument of its name.
func toolStep(c *call) act { return c.callTool(c.node.config["arguments"]) }

func mcpStep(c *call) act { return c.callTool(c.node.mcp()["arguments"]) }

// openapiStep hands config and inputs over together: their names do not meet in the published schemas.
func openapiStep(c *call) act {
	config := maps.Clone(c.node.config)
	delete(config, "requires")
	return c.callTool(mustEncode(config))
}

// fetchStep is core.openwop.http.fetch: the config is the request, the input "variables" fills the {{name}} of its URL, and the
// input "body" is its body.
func fetchStep(c *call) act {
	config := maps.Clone(c.node.config)
	delete(config, "requires")
	template, _ := textOf(config["url"])
	variables, err := members(c.in["variables"].raw)
	if template == "" || err != nil {
		return fail(codeInvalidInput, "the node needs config.url, and an object as the input %q if any", "variables")
	}
	address, missing := fill(template, variables)
	if missing != "" {
		return fail("INVALID_URL", "the URL needs a value for %q", missing) // the published node's own code
	}
	config["url"] = mustEncode(address)
	delete(c.in, "variables")
	return c.callTool(mustEncode(config))
}

// fill puts URL-encoded values in the place of each {{name}}, and says which is missing.
func fill(template string, values map[string]json.RawMessage) (filled, missing string) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(template, "{{")
		name, after, closed := strings.Cut(rest, "}}")
		b.WriteString(before)
		if !ok || !closed {
			if ok {
				b.WriteString("{{" + rest)
			}
			return b.String(), ""
		}
		name = strings.TrimSpace(name)
		raw, known := values[name]
		text, isText := textOf(raw)
		if !isText {
			text = string(raw)
		}
		if kind := jsontext.Value(raw).Kind(); !known || !isText && kind != '0' && kind != 't' && kind != 'f' {
			return "", name
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
		template = after
	}
}

func (c *call) callTool(arguments json.RawMessage) act {
	name := c.node.tool()
	if name == "" {
		return fail(codeInvalidInput, "the node's config names no tool")
	}
	args, err := members(arguments)
	if err == nil && args == nil {
		args = map[string]json.RawMessage{}
	}
	over, err2 := members(c.in["arguments"].raw)
	if err != nil || err2 != nil {
		return fail(codeInvalidInput, "arguments must be an object")
	}
	maps.Copy(args, over)
	for _, port := range c.ports() {
		if port != "arguments" {
			args[port] = c.in[port].raw
		}
	}
	return step{kind: wire.KindTool, tool: name, inputs: mustEncode(args)}
}

// wholeOutput puts out what the runner returned.
func wholeOutput(_ *node, out *stepOutput) json.RawMessage { return out.doc }

// resultOutput puts out the tool's own result, as the schemas of the published HTTP nodes have it.
func resultOutput(_ *node, out *stepOutput) json.RawMessage {
	if jsontext.Value(out.Result).Kind() == '{' {
		return out.Result
	}
	return out.doc
}

// model reports whether the node's step is a model's turn.
func (n *node) model() bool {
	kind, _ := typeOf(n.typeID)
	return kind.waits == phaseQueued && n.tool() == ""
}
