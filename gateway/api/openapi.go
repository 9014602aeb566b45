package api

import (
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any

// anything is a body that has a schema of the protocol's, or none.
type anything struct{}

// openAPI makes the OpenAPI document of the routes.
func openAPI(c Config, all []route) any {
	s := schemas{map[string]any{}, map[string]reflect.Type{}}
	paths := map[string]object{}
	for _, rt := range all {
		if paths[rt.path] == nil {
			paths[rt.path] = object{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = rt.describe(s)
	}
	s.defs["Error"] = object{"type": "object", "required": []string{"error", "message"}, "additionalProperties": false,
		"properties": object{"error": object{"type": "string"}, "message": object{"type": "string"}, "details": object{"type": "object"}}}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "runnerd gateway", "version": c.Version,
			"description": "OpenWOP 1.1 and this host's own routes under " + host + ". Every error is the Error schema."},
		"paths": paths,
		"components": object{
			"schemas": s.defs,
			"securitySchemes": object{
				"bearer":  object{"type": "http", "scheme": "bearer", "description": "an API key (owk_) or the page's bearer (owb_)"},
				"runner":  object{"type": "http", "scheme": "bearer", "description": "a runner's bearer (owr_)"},
				"session": object{"type": "apiKey", "in": "cookie", "name": cookieName},
			},
		},
	}
}

func (rt route) describe(s schemas) object {
	op := object{"operationId": rt.name, "summary": rt.about, "responses": rt.responses(s)}
	switch rt.guard {
	case byBearer:
		scopes := []string{}
		if rt.scope != "" {
			scopes = append(scopes, rt.scope)
		}
		op["security"] = []object{{"bearer": scopes}}
	case byRunner:
		op["security"] = []object{{"runner": []string{}}}
	case byCookie:
		op["security"] = []object{{"session": []string{}}}
	case byNothing:
		op["security"] = []object{}
	}
	var params []object
	for _, name := range pathParams(rt.path) {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string", "minLength": 1, "maxLength": 128}})
	}
	for _, p := range rt.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "schema": object{"type": p.kind}})
	}
	if rt.stream {
		params = append(params, object{"name": "Last-Event-ID", "in": "header", "schema": object{"type": "integer"}})
	}
	if rt.once {
		params = append(params, object{"name": headerKey, "in": "header", "schema": object{"type": "string", "minLength": 1, "maxLength": longestKey}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.in != nil {
		op["requestBody"] = object{"content": object{"application/json": object{"schema": s.of(reflect.TypeOf(rt.in))}}}
	}
	return op
}

func (rt route) responses(s schemas) object {
	answer := object{"description": http.StatusText(rt.status)}
	switch {
	case rt.stream:
		answer["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	case rt.out != nil:
		answer["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(rt.out))}}
	}
	return object{
		strconv.Itoa(rt.status): answer,
		"default":               object{"description": "an error", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}},
	}
}

// schemas collects the types of bodies by name.
type schemas struct {
	defs  map[string]any
	types map[string]reflect.Type
}

// of gives the schema of a type, as encoding/json writes it. Named structs become components.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[anything]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		name := title(t.Name())
		if other, taken := s.types[name]; taken && other != t {
			name = title(path.Base(t.PkgPath())) + name
		}
		if s.types[name] == nil {
			s.types[name] = t // first: a type may hold itself
			s.defs[name] = s.members(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (s schemas) members(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	doc := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		doc["required"] = required
	}
	return doc
}

// pathParams lists the names in braces.
func pathParams(path string) []string {
	var names []string
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}
