import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Writes a generated page, or reports that it is out of date and how to write it. */
export function generated(root: string, file: string, text: string, write: boolean, command: string): string[] {
  const path = join(root, file)
  if (write) writeFileSync(path, text)
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return []
  return [`${file} is out of date; run ${command}`]
}
