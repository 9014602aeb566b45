package engine

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// encode and decode are this package's way into JSON and back: a third of the time of encoding/json, members of maps in
// order, so that the same question gives the same bytes, and nothing escaped that need not be. Their structs say omitzero,
// which means the same to both packages.
func encode(v any) (jsontext.Value, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

func decode(doc []byte, v any) error {
	return json.Unmarshal(doc, v, jsontext.AllowInvalidUTF8(true))
}

// mustEncode is encode for what can always be encoded: strings, and JSON that was decoded from JSON.
func mustEncode(v any) []byte {
	doc, err := encode(v)
	if err != nil {
		panic(err)
	}
	return doc
}

// Encode is the event's document, as it is stored and sent.
func (e Event) Encode() ([]byte, error) { return encode(e) }

// DecodeEvent reads a document that Encode, or encoding/json, wrote.
func DecodeEvent(doc []byte) (Event, error) {
	var e Event
	err := decode(doc, &e)
	return e, err
}
