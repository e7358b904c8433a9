package output

import (
	"fmt"
	"io"

	"github.com/reelay/reelay/client"
)

// List is the shape of every list in JSON: a page, or all of it.
type List[T any] struct {
	Items []T `json:"items"`
	// TotalCount is set for lists with a count.
	TotalCount *int `json:"totalCount,omitempty"`
	// HasNextPage means that --after with EndCursor shows more.
	HasNextPage bool    `json:"hasNextPage"`
	EndCursor   *string `json:"endCursor"`
}

// All returns a complete list.
func All[T any](items []T) List[T] {
	if items == nil {
		items = []T{}
	}
	return List[T]{Items: items}
}

// Page converts a page of the client, if err is nil.
func Page[T, E any, N interface {
	*E
	GetNode() T
}, P interface {
	GetEdges() []E
	GetPageInfo() client.PageInfo
}](found P, err error) (List[T], error) {
	list := List[T]{Items: []T{}}
	if err != nil {
		return list, err
	}
	edges, info := found.GetEdges(), found.GetPageInfo()
	for i := range edges {
		list.Items = append(list.Items, N(&edges[i]).GetNode())
	}
	list.HasNextPage, list.EndCursor = info.HasNextPage, info.EndCursor
	if counted, ok := any(found).(interface{ GetTotalCount() int }); ok {
		list.TotalCount = new(counted.GetTotalCount())
	}
	return list, nil
}

// Map returns the same page with other items.
func Map[T, U any](list List[T], convert func(T) U) List[U] {
	items := make([]U, len(list.Items))
	for i, item := range list.Items {
		items[i] = convert(item)
	}
	return List[U]{items, list.TotalCount, list.HasNextPage, list.EndCursor}
}

// More prints how to show the next page, if there is one.
func (l *List[T]) More(out io.Writer) error {
	if !l.HasNextPage || l.EndCursor == nil {
		return nil
	}
	count := ""
	if l.TotalCount != nil && *l.TotalCount > 10_000 {
		count = " of more than 10000"
	} else if l.TotalCount != nil {
		count = fmt.Sprintf(" of %d", *l.TotalCount)
	}
	_, err := fmt.Fprintf(out, "%d%s; next page: --after %s\n", len(l.Items), count, *l.EndCursor)
	return err
}

// Complete is the answer of a call that returns a whole list.
func Complete[T any](items []T, err error) (List[T], error) { return All(items), err }
