package graph

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"reflect"
)

// wireBuffer is enough for most messages in one write: there are as many buffers
// as sockets.
const wireBuffer = 1 << 10

// wire hands out a request's connection with a small buffer for what is written,
// and keeps it, so that writes can have deadlines without timers of their own.
type wire struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (w *wire) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = conn
	return conn, bufio.NewReadWriter(buffers.Reader, bufio.NewWriterSize(conn, wireBuffer)), nil
}

// parcel reads a message that gqlgen sends, whose type it keeps to itself.
func parcel(v any) (m message, ok bool) {
	sent := reflect.Indirect(reflect.ValueOf(v))
	if sent.Kind() != reflect.Struct {
		return m, false
	}
	id, kind := sent.FieldByName("ID"), sent.FieldByName("Type")
	payload, ok := sent.FieldByName("Payload"), false
	if id.Kind() != reflect.String || kind.Kind() != reflect.String || !payload.IsValid() {
		return m, false
	}
	m.Payload, ok = payload.Interface().(json.RawMessage)
	m.ID, m.Type = id.String(), kind.String()
	return m, ok
}

// appendTo appends the message as JSON. Its payload is JSON that was made here,
// and goes out as it is.
func (m message) appendTo(raw []byte) ([]byte, error) {
	raw = append(raw, `{"type":"`...)
	raw = append(raw, m.Type...) // one of the protocol's
	raw = append(raw, '"')
	if m.ID != "" {
		id, err := json.Marshal(m.ID)
		if err != nil {
			return nil, err
		}
		raw = append(append(raw, `,"id":`...), id...)
	}
	if len(m.Payload) > 0 {
		raw = append(append(raw, `,"payload":`...), m.Payload...)
	}
	return append(raw, '}'), nil
}
