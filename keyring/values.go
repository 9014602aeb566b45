package keyring

import (
	"encoding/json"
	"errors"
)

// values is what an encrypted file holds, by name. In JSON the bytes are in
// base64, so that any byte survives.
type values map[string][]byte

type storedValues struct {
	Version int    `json:"v"`
	Values  values `json:"values"`
}

func (v values) encode() ([]byte, error) {
	return json.Marshal(storedValues{Version: 1, Values: v})
}

// decodeValues reads the plaintext of an encrypted file, strictly. Its errors
// say nothing of what stands there, because credentials do.
func decodeValues(plain []byte) (values, error) {
	var s storedValues
	if err := decodeStrict(plain, &s); err != nil {
		return nil, errors.New("its content is not ours")
	}
	if s.Version != 1 {
		return nil, errors.New("another version of this program wrote it")
	}
	for name, value := range s.Values {
		if CheckName(name) != nil || len(value) == 0 || len(value) > MaxSize {
			return nil, errors.New("its content is not ours")
		}
	}
	if s.Values == nil {
		s.Values = values{}
	}
	return s.Values, nil
}
