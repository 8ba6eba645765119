// Makes every call of a plan with the client that oapi-codegen has generated, and prints what each has come to.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
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

// form writes the fields of a body as a form, those that are files as files.
func form(c call) (string, io.Reader, error) {
	var fields map[string]any
	if err := json.Unmarshal(c.Body, &fields); err != nil {
		return "", nil, err
	}
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for name, value := range fields {
		create := writer.CreateFormField
		if slices.Contains(c.Files, name) {
			create = func(name string) (io.Writer, error) { return writer.CreateFormFile(name, name+".png") }
		}
		part, err := create(name)
		if err != nil {
			return "", nil, err
		}
		if list, ok := value.([]any); ok {
			value = list[0]
		}
		fmt.Fprint(part, value)
	}
	return writer.FormDataContentType(), &body, writer.Close()
}

// decoded makes a value of the type that the generated method takes.
func decoded(of reflect.Type, text []byte) (reflect.Value, error) {
	value := reflect.New(of)
	err := json.Unmarshal(text, value.Interface())
	return value.Elem(), err
}

// pathArguments are the first arguments of every method.
func pathArguments(c call) []reflect.Value {
	values := []reflect.Value{reflect.ValueOf(context.Background())}
	for _, name := range placeholder.FindAllStringSubmatch(c.Template, -1) {
		values = append(values, reflect.ValueOf(c.Path[name[1]]))
	}
	return values
}

func arguments(method reflect.Type, c call) ([]reflect.Value, error) {
	values := pathArguments(c)
	for i := len(values); i < method.NumIn()-1; i++ {
		of := method.In(i)
		text := []byte(c.Body)
		if of.Kind() == reflect.Pointer {
			parameters := c.Query
			for name, value := range c.Header {
				parameters[name] = value
			}
			text, _ = json.Marshal(parameters)
		}
		value, err := decoded(of, text)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func send(client reflect.Value, c call) (out outcome, err error) {
	name := strings.ToUpper(c.OperationID[:1]) + c.OperationID[1:]
	var results []reflect.Value
	if c.Files != nil {
		contentType, body, err := form(c)
		if err != nil {
			return out, err
		}
		method := client.MethodByName(name + "WithBodyWithResponse")
		values := append(pathArguments(c), reflect.ValueOf(contentType), reflect.ValueOf(body))
		results = method.Call(values)
	} else {
		method := client.MethodByName(name + "WithResponse")
		values, err := arguments(method.Type(), c)
		if err != nil {
			return out, err
		}
		results = method.Call(values)
	}
	if failure, _ := results[1].Interface().(error); failure != nil {
		return out, failure
	}
	response := results[0].Elem()
	status := response.FieldByName("HTTPResponse").Interface().(*http.Response).StatusCode
	if parsed := response.FieldByName(fmt.Sprintf("JSON%d", status)); parsed.IsValid() {
		out.Parsed = parsed.Interface()
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
	client, err := gateway.NewClientWithResponses(plan.URL, gateway.WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+plan.Key)
			return nil
		}))
	if err != nil {
		panic(err)
	}
	for _, c := range plan.Calls {
		out, err := send(reflect.ValueOf(client), c)
		if err != nil {
			out.Error = err.Error()
		}
		out.OperationID = c.OperationID
		line, _ := json.Marshal(out)
		fmt.Println(string(line))
	}
}
