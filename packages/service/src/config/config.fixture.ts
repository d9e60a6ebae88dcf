import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A folder with files, removed at the end of the scope; the `.git` in it ends the search for a configuration. */
export function folderWith(files: { readonly [name: string]: string }): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'gantry-config-'))
  mkdirSync(join(path, '.git'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}
