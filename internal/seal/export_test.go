package seal

// Look reads the file again if it has changed.
func (f *File) Look() { f.look(true) }
