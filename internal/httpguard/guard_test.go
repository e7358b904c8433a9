package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/stretchr/testify/require"
)

const (
	bodyLimit  = 30 * time.Second
	writeLimit = 10 * time.Second
	linger     = 2 * time.Second
)

// pipes is a listener for unbuffered connections within a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble runs a test against a guarded handler over one connection, in a synctest bubble.
func inBubble(t *testing.T, limits httpguard.Limits, handler http.HandlerFunc, test func(t *testing.T, conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		ours, conn := net.Pipe()
		connections := make(pipes, 1)
		connections <- ours
		server := &http.Server{Handler: httpguard.New(handler, func(*http.Request) httpguard.Limits { return limits })}
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		var served sync.WaitGroup
		served.Go(func() { _ = server.Serve(connections) })
		test(t, conn)
		conn.Close()
		require.NoError(t, server.Close())
		served.Wait()
	})
}

// send sends text in the background, as the server reads it.
func send(conn net.Conn, text string) { go io.WriteString(conn, text) }

// answer reads one answer and returns it with the time that it took.
func answer(t *testing.T, from *bufio.Reader) (*http.Response, string, time.Duration) {
	begun := time.Now()
	res, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(raw), time.Since(begun)
}

// requireClosed waits for the end of the connection.
func requireClosed(t *testing.T, from *bufio.Reader, within time.Duration) {
	begun := time.Now()
	_, err := from.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.LessOrEqual(t, time.Since(begun), within)
}

const head = "POST / HTTP/1.1\r\nHost: a\r\n"

func TestBody(t *testing.T) {
	t.Parallel()
	read := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			http.Error(w, "too slow", http.StatusRequestTimeout)
			return
		}
		fmt.Fprintf(w, "%s %v", body, err)
	}

	for name, body := range map[string]string{"length": "Content-Length: 10\r\n\r\n1",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n"} {
		t.Run("EndsWhenItStops/"+name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, httpguard.Limits{}, read, func(t *testing.T, conn net.Conn) {
				from := bufio.NewReader(conn)
				send(conn, head+body)

				res, text, after := answer(t, from)

				require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
				require.Equal(t, "too slow\n", text)
				require.True(t, res.Close)
				require.Equal(t, bodyLimit, after)
				requireClosed(t, from, linger)
			})
		})
	}

	t.Run("HasOneDeadlineHoweverItArrives", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, read, func(t *testing.T, conn net.Conn) {
			var sending sync.WaitGroup
			sending.Go(func() {
				_, err := io.WriteString(conn, head+"Content-Length: 1000\r\n\r\n")
				for err == nil {
					time.Sleep(time.Second)
					_, err = io.WriteString(conn, "1")
				}
			})

			res, _, after := answer(t, bufio.NewReader(conn))
			conn.Close()
			sending.Wait()

			require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
			require.Equal(t, bodyLimit, after)
		})
	})

	t.Run("MayTakeLongIfOnlyStallsAreLimited", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{Stall: 5 * time.Second}, read, func(t *testing.T, conn net.Conn) {
			from := bufio.NewReader(conn)
			var sending sync.WaitGroup
			for _, c := range []struct {
				pause  time.Duration
				status int
			}{{4 * time.Second, http.StatusOK}, {6 * time.Second, http.StatusRequestTimeout}} {
				sending.Go(func() {
					_, err := io.WriteString(conn, head+"Content-Length: 20\r\n\r\n")
					for n := 0; n < 20 && err == nil; n++ {
						time.Sleep(c.pause)
						_, err = io.WriteString(conn, "1")
					}
				})

				res, _, _ := answer(t, from)

				require.Equal(t, c.status, res.StatusCode)
			}
			conn.Close()
			sending.Wait()
		})
	})

	t.Run("DoesNotLimitTheHandlerOnceItIsRead", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, r *http.Request) {
			read(httptest.NewRecorder(), r)
			time.Sleep(time.Hour)
			fmt.Fprint(w, r.Context().Err())
		}, func(t *testing.T, conn net.Conn) {
			from := bufio.NewReader(conn)
			for range 2 {
				send(conn, head+"Content-Length: 4\r\n\r\nbody")

				res, text, _ := answer(t, from)

				require.Equal(t, "<nil>", text)
				require.False(t, res.Close, "the connection serves the next request")
			}
		})
	})

	for name, handler := range map[string]http.HandlerFunc{
		"Refuses":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"AnswersNothing": func(http.ResponseWriter, *http.Request) {},
		"Flushes":        func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"ReadsAPart": func(w http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 1))
			_ = r.Body.Close()
			w.WriteHeader(http.StatusBadRequest)
		},
	} {
		for kind, body := range map[string]string{"length": "Content-Length: 1000\r\n\r\n1",
			"chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n"} {
			t.Run("IsNotWaitedForByAHandlerThat"+name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				inBubble(t, httpguard.Limits{}, handler, func(t *testing.T, conn net.Conn) {
					from := bufio.NewReader(conn)
					send(conn, head+body)

					res, _, after := answer(t, from)

					require.Zero(t, after)
					require.True(t, res.Close)
					requireClosed(t, from, linger)
				})
			})
		}
	}

	t.Run("IsNotWaitedForAfterAPanic", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			func(t *testing.T, conn net.Conn) {
				send(conn, head+"Content-Length: 1000\r\n\r\n")

				requireClosed(t, bufio.NewReader(conn), linger)
			})
	})

	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		for kind, body := range map[string]string{"length": "Content-Length: 1000\r\n\r\n", "chunked": "Transfer-Encoding: chunked\r\n\r\n"} {
			t.Run("IsRefusedForMethodsWithoutABody/"+method+"/"+kind, func(t *testing.T) {
				t.Parallel()
				inBubble(t, httpguard.Limits{}, func(http.ResponseWriter, *http.Request) { t.Error("the request reached the handler") },
					func(t *testing.T, conn net.Conn) {
						from := bufio.NewReader(conn)
						send(conn, method+" / HTTP/1.1\r\nHost: a\r\n"+body)
						begun := time.Now()

						req := &http.Request{Method: method}
						res, err := http.ReadResponse(from, req)
						require.NoError(t, err)
						text, err := io.ReadAll(res.Body)
						require.NoError(t, err)

						require.Equal(t, http.StatusBadRequest, res.StatusCode)
						require.True(t, res.Close)
						require.Zero(t, time.Since(begun))
						if method != "HEAD" {
							require.Equal(t, "A "+method+" request takes no body: send it without one.\n", string(text))
						}
						requireClosed(t, from, linger)
					})
			})
		}
		t.Run("IsAllowedIfItIsEmpty/"+method, func(t *testing.T) {
			t.Parallel()
			inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
				func(t *testing.T, conn net.Conn) {
					send(conn, method+" / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")

					res, _, _ := answer(t, bufio.NewReader(conn))

					require.Equal(t, http.StatusNoContent, res.StatusCode)
					require.False(t, res.Close)
				})
		})
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const get, size = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1 << 20
	large := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }

	for name, c := range map[string]struct {
		pause time.Duration
		whole bool
	}{
		"IsWholeForASlowReader":              {writeLimit / 3, true},
		"IsCutForAReaderThatStops":           {writeLimit + time.Second, false},
		"IsCutForAReaderThatIsSlowerThanAll": {writeLimit * 3 / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, httpguard.Limits{}, large, func(t *testing.T, conn net.Conn) {
				send(conn, get)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)

				var read int64
				for err == nil {
					time.Sleep(c.pause)
					var n int64
					n, err = io.CopyN(io.Discard, res.Body, 64<<10)
					read += n
				}

				if c.whole {
					require.ErrorIs(t, err, io.EOF)
					require.EqualValues(t, size, read)
				} else {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
			})
		})
	}

	for name, handler := range map[string]http.HandlerFunc{
		"small":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") },
		"header":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"flushed": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
	} {
		t.Run("IsCutOffIfTheClientNeverReads/"+name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, httpguard.Limits{}, handler, func(t *testing.T, conn net.Conn) {
				_, err := io.WriteString(conn, get)
				require.NoError(t, err)

				time.Sleep(writeLimit + time.Second)

				_, err = http.ReadResponse(bufio.NewReader(conn), nil)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			})
		})
	}

	t.Run("IsUnchanged", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(t *testing.T, conn net.Conn) {
			send(conn, get)

			res, text, _ := answer(t, bufio.NewReader(conn))

			require.Equal(t, "ok", text)
			require.EqualValues(t, 2, res.ContentLength)
			require.Empty(t, res.TransferEncoding)
		})
	})

	// A goroutine that outlives its handler can no longer write, and does not damage the next
	// answer on the connection.
	t.Run("EndsWhenItsHandlerReturns", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.URL.Path)
			if r.URL.Path != "/first" {
				time.Sleep(time.Minute)
				return
			}
			go func() {
				time.Sleep(time.Second) // until the next request is being handled
				n, err := fmt.Fprint(w, "late")
				require.Zero(t, n)
				require.ErrorIs(t, err, http.ErrHandlerTimeout)
				w.WriteHeader(http.StatusTeapot)
				w.Header().Set("Late", "1")
				w.(http.Flusher).Flush()
				require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrHandlerTimeout)
				_, _, err = w.(http.Hijacker).Hijack()
				require.Error(t, err)
			}()
		}, func(t *testing.T, conn net.Conn) {
			from := bufio.NewReader(conn)
			for _, path := range []string{"/first", "/second"} {
				send(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")

				res, text, _ := answer(t, from)

				require.Equal(t, http.StatusOK, res.StatusCode)
				require.Equal(t, path, text)
				require.Empty(t, res.Header.Get("Late"))
			}
		})
	})

	// A goroutine that a failed handler left behind must not touch its buffers, which net/http reuses.
	t.Run("EndsWhenItsHandlerGivesUp", func(t *testing.T) {
		t.Parallel()
		var late chan error
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			var begun sync.WaitGroup
			begun.Add(1)
			go func() {
				begun.Done()
				time.Sleep(writeLimit) // until the handler's write fails
				_, err := fmt.Fprint(w, "late")
				w.(http.Flusher).Flush()
				late <- err
			}()
			begun.Wait()
			_, err := w.Write(make([]byte, size))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}, func(t *testing.T, conn net.Conn) {
			late = make(chan error, 1)
			_, err := io.WriteString(conn, get)
			require.NoError(t, err)

			require.Error(t, <-late)
		})
	})

	t.Run("CanBeSilentForLongOverHTTP2", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				fmt.Fprint(w, "event\n")
				w.(http.Flusher).Flush()
				time.Sleep(2 * writeLimit)
			}
		}, func(t *testing.T, conn net.Conn) {
			client := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
				Protocols: new(http.Protocols)}
			client.Protocols.SetUnencryptedHTTP2(true)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil)
			require.NoError(t, err)

			res, err := client.RoundTrip(req)
			require.NoError(t, err)
			raw, err := io.ReadAll(res.Body)

			require.NoError(t, err)
			require.Equal(t, 2, res.ProtoMajor)
			require.Equal(t, strings.Repeat("event\n", 3), string(raw))
			client.CloseIdleConnections()
		})
	})

	t.Run("CanBeHijacked", func(t *testing.T) {
		t.Parallel()
		inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			go func() {
				time.Sleep(time.Hour) // no deadline may be left on the connection
				_, err := io.WriteString(conn, "hello")
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}()
		}, func(t *testing.T, conn net.Conn) {
			send(conn, get)

			raw, err := io.ReadAll(conn)

			require.NoError(t, err)
			require.Equal(t, "hello", string(raw))
		})
	})
}

func TestUnavailable(t *testing.T) {
	t.Parallel()

	for status, closes := range map[int]bool{http.StatusOK: false, http.StatusNotFound: false, http.StatusServiceUnavailable: true} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			inBubble(t, httpguard.Limits{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) },
				func(t *testing.T, conn net.Conn) {
					send(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")

					res, _, _ := answer(t, bufio.NewReader(conn))

					require.Equal(t, closes, res.Close, "the next request may reach another process")
				})
		})
	}
}
