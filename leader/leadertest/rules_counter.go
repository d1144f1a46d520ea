package leadertest

import (
	"cmp"
	"fmt"
	"slices"
)

// counter is what is known of the counter row.
type counter struct {
	increments []increment
	open       map[attempt]int // tried, outcome unknown
	final      int64
	wasRead    bool
}

// increment is a compare-and-set that succeeded.
type increment struct {
	value   int64
	at      moment
	replica string
}

type attempt struct {
	replica string
	value   int64
}

func (c *counter) tried(replica string, value int64) { c.open[attempt{replica, value}]++ }

func (c *counter) succeeded(replica string, value int64, at moment) {
	c.settled(replica, value)
	c.increments = append(c.increments, increment{value: value, at: at, replica: replica})
}

// settled notes that one attempt has a known outcome.
func (c *counter) settled(replica string, value int64) {
	a := attempt{replica, value}
	if c.open[a]--; c.open[a] <= 0 {
		delete(c.open, a)
	}
}

func (c *counter) read(value int64) { c.final, c.wasRead = value, true }

// increments is H8.
func (c *checker) increments() {
	all := c.counter.increments
	slices.SortStableFunc(all, func(i, j increment) int { return cmp.Compare(i.value, j.value) })
	for i := 1; i < len(all); i++ {
		if one, two := all[i-1], all[i]; one.value == two.value {
			c.violated("H8", two.at, "%s at %v and %s at %v both set the counter to %d", one.replica, one.at, two.replica, two.at, two.value)
		}
	}
	last := int64(0)
	if len(all) > 0 {
		last = all[len(all)-1].value
		if all[0].value < 1 {
			c.violated("H8", all[0].at, "%s set the counter to %d", all[0].replica, all[0].value)
		}
	}
	if c.counter.wasRead && last > c.counter.final {
		c.violated("H8", c.end, "the counter was set to %d and holds %d in the end", last, c.counter.final)
	}
	c.missing(max(last, c.counter.final))
}

// missing is H8 for the values up to n that nobody is known to have set.
func (c *checker) missing(n int64) {
	values := []int64{n + 1}
	for _, i := range c.counter.increments {
		values = append(values, i.value)
	}
	for a := range c.counter.open {
		values = append(values, a.value)
	}
	slices.Sort(values)
	next := int64(1)
	for _, v := range values {
		if v > n+1 {
			break
		}
		if v > next {
			text := fmt.Sprintf("nobody set the counter to %d", next)
			if v > next+1 {
				text = fmt.Sprintf("nobody set the counter to any of %d to %d", next, v-1)
			}
			c.violated("H8", c.end, "%s, and it reached %d", text, n)
		}
		next = max(next, v+1)
	}
}
