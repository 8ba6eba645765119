// Reads forms as Go's net/http does: one JSON object a line in, one a line out.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"mime/multipart"
	"os"
)

type form struct {
	Type string `json:"type"`
	Body []byte `json:"body"`
}

type reading struct {
	Fields map[string][][]byte `json:"fields,omitempty"`
	Error  string              `json:"error,omitempty"`
}

func read(given form) (map[string][][]byte, error) {
	mediaType, parameters, err := mime.ParseMediaType(given.Type)
	if err != nil {
		return nil, err
	}
	if mediaType != "multipart/form-data" || parameters["boundary"] == "" {
		return nil, errors.New("not a form")
	}
	parsed, err := multipart.NewReader(bytes.NewReader(given.Body), parameters["boundary"]).ReadForm(64 << 20)
	if err != nil {
		return nil, err
	}
	fields := map[string][][]byte{}
	for name, values := range parsed.Value {
		for _, value := range values {
			fields[name] = append(fields[name], []byte(value))
		}
	}
	return fields, nil
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var given form
		if err := json.Unmarshal(line, &given); err != nil {
			panic(err)
		}
		fields, err := read(given)
		answer := reading{Fields: fields}
		if err != nil {
			answer = reading{Error: err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}
