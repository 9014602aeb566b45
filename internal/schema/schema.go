package schema

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"runnerd/internal/wire"
)

//go:embed schemas/*.schema.json
var files embed.FS

const (
	base     = "https://openwop.dev/spec/v1/"
	suffix   = ".schema.json"
	event    = "run-event"
	payloads = "run-event-payloads"
)

// A Set is the protocol's schemas, compiled. It is safe for concurrent use.
type Set struct {
	documents map[string]*Schema // by file name without suffix
	payloads  map[string]*Schema // by event type
}

// Load compiles all of the protocol's schemas. It takes some tens of milliseconds: do it once.
func Load() (*Set, error) {
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	s := &Set{documents: map[string]*Schema{}, payloads: map[string]*Schema{}}
	for _, name := range Names() {
		if s.documents[name], err = c.compile(base + name + suffix); err != nil {
			return nil, err
		}
	}
	raw, err := Raw(payloads)
	if err != nil {
		return nil, err
	}
	var index struct {
		Defs struct {
			TypeIndex struct {
				Properties map[string]struct {
					Ref string `json:"$ref"`
				} `json:"properties"`
			} `json:"_typeIndex"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("read index of event types: %w", err)
	}
	for typ, at := range index.Defs.TypeIndex.Properties {
		if s.payloads[typ], err = c.compile(base + payloads + suffix + at.Ref); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Names lists the protocol's documents, like "run-snapshot".
func Names() []string {
	entries, err := fs.Glob(files, "schemas/*"+suffix)
	if err != nil {
		panic(err) // the pattern is constant
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(path.Base(e), suffix)
	}
	return names
}

// Raw returns one of the files as it was published.
func Raw(name string) ([]byte, error) { return files.ReadFile("schemas/" + name + suffix) }

// Document validates a document of the protocol by its name.
func (s *Set) Document(name string, doc []byte) error {
	sch, ok := s.documents[name]
	if !ok {
		return fmt.Errorf("no schema is named %q", name)
	}
	return sch.Validate(doc)
}

// Event validates an event document, its type's name and its payload. A vendor's type is free in its payload.
func (s *Set) Event(doc []byte) error {
	if err := s.Document(event, doc); err != nil {
		return err
	}
	var ev struct {
		Type    string
		Payload json.RawMessage
	}
	if err := json.Unmarshal(doc, &ev); err != nil {
		return err
	}
	if _, ok := s.payloads[ev.Type]; !ok {
		return nil // the event schema has judged the name
	}
	return s.Payload(ev.Type, ev.Payload)
}

// Payload validates the payload of a type that the protocol defines.
func (s *Set) Payload(eventType string, payload []byte) error {
	sch, ok := s.payloads[eventType]
	if !ok {
		return fmt.Errorf("the protocol has no event type %q", eventType)
	}
	if err := sch.Validate(payload); err != nil {
		return fmt.Errorf("payload of %s: %w", eventType, err)
	}
	return nil
}

// A Schema validates documents of one kind. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a schema that comes with a workflow or a pack. It may refer to itself and to the protocol's schemas.
func Compile(doc []byte) (*Schema, error) {
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	const here = "urn:given"
	if err := c.add(here, doc); err != nil {
		return nil, err
	}
	return c.compile(here)
}

// Validate checks one document and names every field that is wrong.
func (s *Schema) Validate(doc []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return &wire.FieldError{Field: "document", Reason: "is not valid JSON: " + err.Error()}
	}
	err = s.compiled.Validate(v)
	if bad, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.Join(leaves(bad)...)
	}
	return err
}

// leaves are the errors that have no cause of their own: those that name a field.
func leaves(e *jsonschema.ValidationError) []error {
	if len(e.Causes) == 0 {
		reason := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		return []error{&wire.FieldError{Field: fieldPath(e.InstanceLocation), Reason: reason}}
	}
	var all []error
	for _, c := range e.Causes {
		all = append(all, leaves(c)...)
	}
	return all
}

func fieldPath(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		if _, err := strconv.Atoi(t); err == nil {
			fmt.Fprintf(&b, "[%s]", t)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(t)
	}
	if b.Len() == 0 {
		return "document"
	}
	return b.String()
}

type compiler struct{ *jsonschema.Compiler }

func newCompiler() (compiler, error) {
	c := compiler{jsonschema.NewCompiler()}
	c.AssertFormat()
	c.UseRegexpEngine(compileRegexp)
	c.UseLoader(nothing{})
	for _, name := range Names() {
		raw, err := Raw(name)
		if err != nil {
			return c, err
		}
		if err := c.add(base+name+suffix, raw); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c compiler) add(id string, raw []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("read schema %s: %w", id, err)
	}
	return c.AddResource(id, doc)
}

func (c compiler) compile(id string) (*Schema, error) {
	sch, err := c.Compile(id)
	if err != nil {
		return nil, fmt.Errorf("compile schema %s: %w", id, err)
	}
	return &Schema{sch}, nil
}

// nothing is a loader that loads nothing.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema %s is not one of ours, and none is fetched", url)
}
