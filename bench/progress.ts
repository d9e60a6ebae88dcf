/** Shows what is being done on one line of the terminal; in a log, on lines of their own. */
export function progress(text: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[Kbench: ${text}` : `bench: ${text}\n`)
}

/** Leaves the line to whatever is printed next. */
export function endProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}
