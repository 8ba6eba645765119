// Makes every call of a plan with the client that openapi-generator has generated, and prints what each has come to.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"example/client/gateway"
)

type call struct {
	OperationID string                     `json:"operationId"`
	Template    string                     `json:"template"`
	Path        map[string]string          `json:"path"`
	Query       map[string]json.RawMessage `json:"query"`
	Header      map[string]json.RawMessage `json:"header"`
	Body        json.RawMessage            `json:"body"`
	Files       []string                   `json:"files"`
}

type outcome struct {
	OperationID string `json:"operationId"`
	Error       string `json:"error,omitempty"`
	Parsed      any    `json:"parsed,omitempty"`
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)
var punctuation = regexp.MustCompile(`[^a-z0-9]`)

// bare is what is left of a name in a language that writes its names in its own case.
func bare(name string) string {
	return punctuation.ReplaceAllString(strings.ToLower(name), "")
}

// methodOf finds the method of an operation in the services of a client.
func methodOf(client reflect.Value, operationID string) (reflect.Value, error) {
	name := strings.ToUpper(operationID[:1]) + operationID[1:]
	for i := range client.NumField() {
		if !client.Type().Field(i).IsExported() {
			continue
		}
		if method := client.Field(i).MethodByName(name); method.IsValid() {
			return method, nil
		}
	}
	return reflect.Value{}, fmt.Errorf("no service has %s", name)
}

// setters of a request, by the bare names of what they set.
func setters(request reflect.Value) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	for i := range request.NumMethod() {
		if name := request.Type().Method(i).Name; name != "Execute" {
			found[bare(name)] = request.Method(i)
		}
	}
	return found
}

// file writes a text where the client can read it.
func file(name string, text any) (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("drive-%d-%s.png", os.Getpid(), name))
	if err := os.WriteFile(path, fmt.Append(nil, text), 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(path)
	return os.Open(path)
}

// valueOf makes a value of the type that a setter takes.
func valueOf(of reflect.Type, name string, text json.RawMessage, isFile bool) (reflect.Value, error) {
	value := reflect.New(of)
	if !isFile {
		err := json.Unmarshal(text, value.Interface())
		return value.Elem(), err
	}
	texts := []any{}
	if json.Unmarshal(text, &texts) != nil {
		texts = []any{string(text)}
	}
	opened, err := file(name, texts[0])
	if of.Kind() == reflect.Slice {
		return reflect.ValueOf([]*os.File{opened}), err
	}
	return reflect.ValueOf(opened), err
}

// bodySetter is the one that takes a model: parameters are texts, numbers, times and lists of them.
func bodySetter(of map[string]reflect.Value) (string, error) {
	for name, setter := range of {
		in := setter.Type().In(0)
		if in.Kind() == reflect.Struct && in.PkgPath() == reflect.TypeFor[gateway.Configuration]().PkgPath() {
			return name, nil
		}
	}
	for name, setter := range of {
		if kind := setter.Type().In(0).Kind(); kind == reflect.Map || kind == reflect.Interface {
			return name, nil
		}
	}
	return "", errors.New("nothing takes the body")
}

// fields of a call, each of which a setter takes.
func fields(c call, of map[string]reflect.Value) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, some := range []map[string]json.RawMessage{c.Query, c.Header} {
		for name, value := range some {
			all[name] = value
		}
	}
	if c.Files != nil {
		return all, json.Unmarshal(c.Body, &all)
	}
	if c.Body != nil {
		name, err := bodySetter(of)
		all[name] = c.Body
		return all, err
	}
	return all, nil
}

func send(client reflect.Value, ctx context.Context, c call) (out outcome, err error) {
	method, err := methodOf(client, c.OperationID)
	if err != nil {
		return out, err
	}
	values := []reflect.Value{reflect.ValueOf(ctx)}
	for _, name := range placeholder.FindAllStringSubmatch(c.Template, -1) {
		values = append(values, reflect.ValueOf(c.Path[name[1]]))
	}
	request := method.Call(values)[0]
	given, err := fields(c, setters(request))
	if err != nil {
		return out, err
	}
	for name, text := range given {
		setter, ok := setters(request)[bare(name)]
		if !ok {
			return out, fmt.Errorf("nothing sets %s", name)
		}
		value, err := valueOf(setter.Type().In(0), name, text, slices.Contains(c.Files, name))
		if err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
		request = setter.Call([]reflect.Value{value})[0]
	}
	results := request.MethodByName("Execute").Call(nil)
	if failure, _ := results[len(results)-1].Interface().(error); failure != nil {
		var answered *gateway.GenericOpenAPIError
		if errors.As(failure, &answered) {
			return out, fmt.Errorf("%w: %s", failure, answered.Body())
		}
		return out, failure
	}
	if len(results) == 3 {
		out.Parsed = results[0].Interface()
	}
	return out, nil
}

func main() {
	var plan struct {
		URL   string `json:"url"`
		Key   string `json:"key"`
		Calls []call `json:"calls"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		panic(err)
	}
	configuration := gateway.NewConfiguration()
	configuration.Servers = gateway.ServerConfigurations{{URL: plan.URL}}
	configuration.HTTPClient = http.DefaultClient
	client := reflect.ValueOf(gateway.NewAPIClient(configuration)).Elem()
	ctx := context.WithValue(context.Background(), gateway.ContextAccessToken, plan.Key)
	for _, c := range plan.Calls {
		out, err := send(client, ctx, c)
		if err != nil {
			out.Error = err.Error()
		}
		out.OperationID = c.OperationID
		line, _ := json.Marshal(out)
		fmt.Println(string(line))
	}
}
