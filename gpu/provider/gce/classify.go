package gce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cloud.google.com/go/auth"
	"github.com/reelay/reelay/features/fleet"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
)

// errExists means that an instance of the name is there already.
var errExists = errors.New("an instance of this name exists")

// classify gives an error of a call its class. nil stays nil.
func classify(err error) error {
	if err == nil || errors.Is(err, fleet.ErrProviderGone) {
		return err
	}
	if _, known := errors.AsType[*fleet.ProviderError](err); known {
		return err
	}
	if refused, ok := errors.AsType[*auth.Error](err); ok && refused.Response != nil && refused.Response.StatusCode < 500 {
		return &fleet.ProviderError{Class: fleet.Permission, Err: fmt.Errorf("the credentials are refused: %w", err)}
	}
	answer, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("there was no answer from Compute Engine in time: %w", err)
		}
		return &fleet.ProviderError{Class: fleet.Transient, Err: err}
	}
	return &fleet.ProviderError{Class: classOfAnswer(answer), Err: shorten(answer)}
}

// shorten leaves out the body of the answer, which repeats the message.
func shorten(answer *googleapi.Error) error {
	short := *answer
	short.Body, short.Details = "", nil
	if short.Message == "" {
		short.Message = http.StatusText(short.Code)
	}
	return &short
}

func classOfAnswer(answer *googleapi.Error) fleet.ErrorClass {
	for _, item := range answer.Errors {
		switch {
		case slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED", "backendError"}, item.Reason):
			return fleet.Transient
		case slices.Contains([]string{"quotaExceeded", "limitExceeded", "QUOTA_EXCEEDED"}, item.Reason):
			return fleet.Quota
		case strings.Contains(item.Reason, "RESOURCE_POOL_EXHAUSTED"):
			return fleet.Stockout
		}
	}
	switch {
	case fullReservation(answer.Message):
		return fleet.Stockout
	case answer.Code == http.StatusUnauthorized, answer.Code == http.StatusForbidden:
		return fleet.Permission
	case answer.Code == http.StatusTooManyRequests, answer.Code == http.StatusRequestTimeout, answer.Code >= 500:
		return fleet.Transient
	}
	return fleet.Invalid
}

// operationError returns the error of an operation that has ended, or nil. The library
// reports no error for an operation that failed.
func operationError(op *compute.Operation) error {
	if op.Error == nil && op.HttpErrorStatusCode < 400 {
		return nil
	}
	failed := &fleet.ProviderError{Class: classOfStatus(op.HttpErrorStatusCode)}
	var says []string
	exists := false
	if op.Error != nil && len(op.Error.Errors) > 0 {
		failed.Class = fleet.Transient
		for _, e := range op.Error.Errors {
			exists = exists || e.Code == "RESOURCE_ALREADY_EXISTS"
			says = append(says, strings.TrimSpace(e.Code+": "+e.Message))
			failed.ZonesAvailable = append(failed.ZonesAvailable, zonesAvailable(e)...)
			failed.Class = graver(failed.Class, classOfCode(e, op.HttpErrorStatusCode))
		}
	} else {
		says = append(says, fmt.Sprintf("%d %s", op.HttpErrorStatusCode, op.HttpErrorMessage))
	}
	if exists || op.Error == nil && op.HttpErrorStatusCode == http.StatusConflict {
		return errExists
	}
	failed.Err = errors.New(strings.Join(says, "; "))
	return failed
}

// graver returns the class that lasts longer: an operation can report several errors.
func graver(a, b fleet.ErrorClass) fleet.ErrorClass {
	order := []fleet.ErrorClass{fleet.Transient, fleet.Stockout, fleet.Quota, fleet.Permission, fleet.Invalid}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// classOfCode returns the class of one error of an operation whose HTTP status is status.
func classOfCode(e *compute.OperationErrorErrors, status int64) fleet.ErrorClass {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(e.Code, part) })
	}
	switch {
	case has("RESOURCE_POOL_EXHAUSTED", "STOCKOUT", "VM_MIN_COUNT_NOT_REACHED", "RESOURCE_AVAILABILITY"):
		return fleet.Stockout
	case strings.Contains(strings.ToLower(e.Message), "due to preemption"), fullReservation(e.Message): // taken away again at once; nothing left
		return fleet.Stockout
	case has("RATE_LIMIT", "RATE_EXCEEDED", "INTERNAL_ERROR", "BACKEND_ERROR", "RESOURCE_NOT_READY", "RESOURCE_OPERATION_RATE"):
		return fleet.Transient
	case has("QUOTA"):
		return fleet.Quota
	case has("PERMISSION", "FORBIDDEN", "ACCESS_DENIED", "ACCESS_NOT_CONFIGURED"):
		return fleet.Permission
	case has("INVALID", "NOT_FOUND", "UNSUPPORTED", "REQUIRED", "CONDITION_NOT_MET"):
		return fleet.Invalid
	}
	return classOfStatus(status)
}

// fullReservation reports whether a message says that the pool's reservation has no machine left.
func fullReservation(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "reservation") && strings.Contains(message, "available resources")
}

func classOfStatus(status int64) fleet.ErrorClass {
	if status == 0 {
		return fleet.Transient
	}
	return classOfAnswer(&googleapi.Error{Code: int(status)})
}

// zonesAvailable returns the zones that an error of a stockout recommends.
func zonesAvailable(e *compute.OperationErrorErrors) []string {
	var zones []string
	for _, detail := range e.ErrorDetails {
		if detail.ErrorInfo == nil {
			continue
		}
		for zone := range strings.SplitSeq(detail.ErrorInfo.Metadatas["zonesAvailable"], ",") {
			if zone = strings.TrimSpace(zone); zone != "" {
				zones = append(zones, zone)
			}
		}
	}
	return zones
}
