import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'

/**
 * Where a file of this package lies, without its ending, as something that Node can run. It is looked up by the package's
 * name, because the code that asks may have been bundled into a file elsewhere.
 */
export function ownFile(name: string): string {
  const entry = entryOf('@gantry/sandbox-wasm')
  return join(dirname(entry), `${name}${extname(entry)}`)
}

/** The folder of the programs that wait for code in every runtime. */
export function driversFolder(): string {
  return join(dirname(dirname(entryOf('@gantry/sandbox'))), 'native', 'drivers')
}

function entryOf(name: string): string {
  return createRequire(import.meta.url).resolve(name)
}
