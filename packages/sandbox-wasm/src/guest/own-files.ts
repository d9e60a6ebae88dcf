import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'

/**
 * The path of a file of this package, without its extension, that Node can run. Resolved by the package's name, because
 * the calling code may be bundled into a file elsewhere.
 */
export function ownFile(name: string): string {
  const entry = entryOf('@gantry/sandbox-wasm')
  return join(dirname(entry), `${name}${extname(entry)}`)
}

/** The folder of the language drivers, shared by all runtimes. */
export function driversFolder(): string {
  return join(dirname(dirname(entryOf('@gantry/sandbox'))), 'native', 'drivers')
}

function entryOf(name: string): string {
  return createRequire(import.meta.url).resolve(name)
}
