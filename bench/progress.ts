/** Shows the current step on one line of the terminal; in a log, on separate lines. */
export function progress(text: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[Kbench: ${text}` : `bench: ${text}\n`)
}

/** Ends the progress line before other output. */
export function endProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}
