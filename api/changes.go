package api

// Changes finds out what is not as it was. The zero value has seen nothing. Not safe from several goroutines at once.
type Changes struct {
	said map[string]map[string]string // what was last said of each target, by lock and database
}

// Of returns those locks of a target of which now something else is to be said than the last time, and those that are new.
func (c *Changes) Of(target string, locks []Lock) (changed []Lock) {
	if c.said == nil {
		c.said = make(map[string]map[string]string)
	}
	says := make(map[string]string, len(locks))
	for _, lock := range locks {
		id, text := lock.Lock+"/"+lock.Datname, lock.String()
		says[id] = text
		if c.said[target][id] != text {
			changed = append(changed, lock)
		}
	}
	c.said[target] = says
	return changed
}

// Forget forgets a target.
func (c *Changes) Forget(target string) { delete(c.said, target) }
