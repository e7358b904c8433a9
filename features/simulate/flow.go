package simulate

import "math"

// flow is a network whose maximum flow is found by Dinic's algorithm (Dinitz, 1970). Edges may be
// added after a flow was sent.
type flow struct {
	out   [][]int // edges of each node; edge e^1 is the reverse of e
	to    []int
	room  []int64
	depth []int
	next  []int
}

func newFlow(nodes int) *flow { return &flow{out: make([][]int, nodes)} }

// node adds a node.
func (f *flow) node() int {
	f.out = append(f.out, nil)
	return len(f.out) - 1
}

// edge adds an edge.
func (f *flow) edge(from, to int, room int64) {
	f.out[from] = append(f.out[from], len(f.to))
	f.out[to] = append(f.out[to], len(f.to)+1)
	f.to, f.room = append(f.to, to, from), append(f.room, room, 0)
}

// send sends as much as there is room for, and returns the additional flow.
func (f *flow) send(from, to int) (sent int64) {
	for f.layer(from, to) {
		f.next = make([]int, len(f.out))
		for {
			n := f.push(from, to, math.MaxInt64)
			if n == 0 {
				break
			}
			sent += n
		}
	}
	return sent
}

// layer computes the distance of each node, and reports whether the target can be reached.
func (f *flow) layer(from, to int) bool {
	f.depth = make([]int, len(f.out))
	f.depth[from] = 1
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, e := range f.out[queue[0]] {
			if at := f.to[e]; f.room[e] > 0 && f.depth[at] == 0 {
				f.depth[at] = f.depth[queue[0]] + 1
				queue = append(queue, at)
			}
		}
	}
	return f.depth[to] > 0
}

// push sends up to most along one path from layer to layer.
func (f *flow) push(at, to int, most int64) int64 {
	if at == to {
		return most
	}
	for ; f.next[at] < len(f.out[at]); f.next[at]++ {
		e := f.out[at][f.next[at]]
		if f.room[e] == 0 || f.depth[f.to[e]] != f.depth[at]+1 {
			continue
		}
		if n := f.push(f.to[e], to, min(most, f.room[e])); n > 0 {
			f.room[e] -= n
			f.room[e^1] += n
			return n
		}
	}
	return 0
}
