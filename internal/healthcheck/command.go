// Package healthcheck is a command that asks a process of Reelay how it is: images without a shell have
// no other program for that.
package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// timeout is how long the process may take to answer.
const timeout = 5 * time.Second

// Command asks the address at the path of probes, which is usual unless one is given.
func Command(usual string) *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck [URL]",
		Short: "Ask a process of Reelay how it is, for the health check of a container",
		Long: "healthcheck asks a process for its health, by default at " + usual + ". It exits with 0 if the answer is 200 OK\n" +
			"within 5 seconds, and otherwise prints the answer.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return Ask(cmd.Context(), append(args, usual)[0])
		},
	}
}

// Ask returns nil if address answers 200.
func Ask(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("the URL must be an http or https address without a password, such as http://127.0.0.1:8080/readyz")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	// Another process of the machine is asked, never a proxy.
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return fmt.Errorf("%s answers %s: %s", address, response.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
