package graph

import (
	"context"
	"reflect"
	"sync"

	"github.com/99designs/gqlgen/graphql"
)

// siblings counts, while a response is made, who may still ask a loader at the same
// place of the query: gqlgen resolves each field of each object on its own. So a
// batch leaves when all are there who can come, and not before, however busy the
// machine is.
type siblings struct {
	mu       sync.Mutex
	response *place
	steps    int // whatever happened at any place
}

// place is one field of the query, for all objects that it is asked of.
type place struct {
	within *place
	fields map[string]*place // by alias

	returned int      // fields that are resolved
	waiting  int      // fields that wait for a batch
	objects  int      // that the resolved ones were answered with, all of one type
	whole    bool     // all are resolved: it is known how often each field below will be asked for
	due      []func() // has a batch leave
}

// isBelow tells whether a place is inside another.
func (p *place) isBelow(other *place) bool {
	for p = p.within; p != nil; p = p.within {
		if p == other {
			return true
		}
	}
	return false
}

func newSiblings() *siblings {
	return &siblings{response: &place{objects: 1, whole: true}}
}

type placeKey struct{}

// countField keeps count of the fields that load, and of those that others are in.
func countField(ctx context.Context, next graphql.Resolver) (value any, err error) {
	of, ok := ctx.Value(responseKey{}).(*response)
	field := graphql.GetFieldContext(ctx)
	if !ok || !field.IsResolver && len(field.Field.Selections) == 0 {
		return next(ctx)
	}
	s := of.siblings
	p := s.enter(ctx, field.Field.Alias)
	defer func() { // even if it panics
		objects := 0
		if err == nil {
			objects = objectsIn(value)
		}
		s.leave(p, objects)
	}()
	return next(context.WithValue(ctx, placeKey{}, p))
}

// objectsIn is how many objects a field is answered with.
func objectsIn(value any) int {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Invalid:
		return 0
	case reflect.Pointer, reflect.Map:
		if v.IsNil() {
			return 0
		}
	case reflect.Slice:
		objects := 0
		for i := range v.Len() {
			objects += objectsIn(v.Index(i).Interface())
		}
		return objects
	}
	return 1
}

// enter returns the place of a field, whose context has that of the field around it.
func (s *siblings) enter(ctx context.Context, alias string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	around, ok := ctx.Value(placeKey{}).(*place)
	if !ok {
		around = s.response
	}
	p := around.fields[alias]
	if p == nil {
		p = &place{within: around}
		if around.fields == nil {
			around.fields = map[string]*place{}
		}
		around.fields[alias] = p
	}
	return p
}

func (s *siblings) leave(p *place, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	p.returned++
	p.objects += objects
	p.settle()
}

// wait notes that a field waits for a batch. leave is called when the batch that
// began with it may leave, if one did.
func (s *siblings) wait(p *place, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	p.waiting++
	if leave != nil {
		p.due = append(p.due, leave)
	}
	p.settle()
}

// goOn notes that fields wait no more.
func (s *siblings) goOn(waited map[*place]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	for p, n := range waited {
		p.waiting -= n
	}
}

// happened is how much has happened so far.
func (s *siblings) happened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// settle has batches leave that nobody else can join, here and below.
func (p *place) settle() {
	if p.within == nil || !p.within.whole {
		return
	}
	if p.returned+p.waiting >= p.within.objects {
		for _, leave := range p.due {
			leave()
		}
		p.due = nil
	}
	if !p.whole && p.returned >= p.within.objects {
		p.whole = true
		for _, below := range p.fields {
			below.settle()
		}
	}
}
