package main

import (
	"fmt"
	"time"
)

// judge follows the sights, tells of changes, and holds them against what the library promises.
type judge struct {
	overlap  time.Duration // how long two replicas may claim to lead
	last     string
	leftAt   time.Time // since when nobody has led; zero while somebody does
	doubleAt time.Time // since when more than one replica has claimed to lead; zero while none or one does
	leader   string
	changes  int
}

// observe enters a sight. It returns a line when something changed, and an error when the promise is broken.
func (j *judge) observe(s sight) (line string, err error) {
	if text := s.String(); text != j.last {
		j.last = text
		line = text
	}
	switch {
	case len(s.claims) > 1 && j.doubleAt.IsZero():
		j.doubleAt = s.at
	case len(s.claims) > 1 && s.at.Sub(j.doubleAt) > j.overlap:
		return line, fmt.Errorf("%d replicas have claimed to lead for %v, more than the documented overlap of %v",
			len(s.claims), s.at.Sub(j.doubleAt).Round(time.Millisecond), j.overlap)
	case len(s.claims) <= 1:
		j.doubleAt = time.Time{}
	}
	if len(s.claims) == 0 && j.leftAt.IsZero() {
		j.leftAt = s.at
	}
	if !s.agrees() {
		return line, nil
	}
	if leader := fmt.Sprint(s.holder, s.pid); leader != j.leader {
		if j.leader != "" {
			j.changes++
			line += j.handover(s.at)
		}
		j.leader = leader
	}
	j.leftAt = time.Time{}
	return line, nil
}

// handover tells how long nobody has led before the moment at.
func (j *judge) handover(at time.Time) string {
	if j.leftAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("; handed over in %v", at.Sub(j.leftAt).Round(10*time.Millisecond))
}
