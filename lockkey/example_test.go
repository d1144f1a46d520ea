package lockkey_test

import (
	"fmt"

	"github.com/plexsphere/leader-exporter/lockkey"
)

func ExampleParse() {
	key, err := lockkey.Parse("plxs/1")
	if err != nil {
		fmt.Println(err)
		return
	}
	classid, objid, objsubid := key.Columns()
	fmt.Println(key, "shows as", classid, objid, objsubid)
	// Output: 1886156915/1 shows as 1886156915 1 2
}
