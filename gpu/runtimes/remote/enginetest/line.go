package enginetest

import "slices"

// task is a job on its way through an engine.
type task struct {
	id          string
	steps, done int
	failAt      int // the step that fails, or -1

	begin, step func()
	end         func(failed bool)
}

// line runs one task at a time, in their order.
type line struct {
	running *task
	waiting []*task
	stalled bool
}

func (l *line) add(t *task) {
	l.waiting = append(l.waiting, t)
	l.next()
}

// next begins a task if none runs. One without steps ends at once.
func (l *line) next() {
	for l.running == nil && len(l.waiting) > 0 && !l.stalled {
		l.running, l.waiting = l.waiting[0], l.waiting[1:]
		l.running.begin()
		if l.running.steps == 0 {
			l.advance()
		}
	}
}

func (l *line) advance() {
	t := l.running
	if t == nil {
		return
	}
	failed := t.done == t.failAt
	if !failed && t.done < t.steps {
		t.done++
		t.step()
	}
	if failed || t.done >= t.steps && t.failAt != t.steps {
		l.running = nil
		t.end(failed)
		l.next()
	}
}

// remove takes a waiting task out of the line.
func (l *line) remove(t *task) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *task) bool { return other == t })
}

// stop ends the running task without calling its end.
func (l *line) stop() {
	l.running = nil
	l.next()
}

func (l *line) clear() { l.running, l.waiting = nil, nil }
