import { Buffer } from 'node:buffer'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { Pyodide } from './pyodide.ts'

/** Where the parts of a kept memory stand in its file: behind a head, those stretches of it that are not all zero. */
export interface SnapshotIndex {
  readonly headBytes: number
  readonly memoryBytes: number
  readonly stretches: readonly (readonly [start: number, bytes: number])[]
}

/** What Pyodide is told about its memory before it starts, and what it then has to put it back with. */
interface Settings {
  INITIAL_MEMORY: number
  HEAPU8: Uint8Array
  readonly API: { restoreSnapshot(snapshot: Uint8Array): unknown }
}

type Create = (settings: Settings) => Promise<unknown>

const options = { env: { HOME: '/work', PYTHONHASHSEED: '0' }, jsglobals: Object.freeze(Object.create(null)) }

/** An interpreter that will be kept: started from nothing, which takes seconds. */
export async function startPyodide(folder: string): Promise<Pyodide> {
  return await load(folder, { _makeSnapshot: true }, (create) => create)
}

/**
 * An interpreter as it was kept. Its memory is read straight to where it belongs; Pyodide itself would want all of it in
 * another place first.
 */
export async function restorePyodide(folder: string, file: string): Promise<Pyodide> {
  const index = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as SnapshotIndex
  const snapshot = openSync(file, 'r')
  const head = Buffer.alloc(index.headBytes)
  readSync(snapshot, head)
  try {
    return await load(folder, { _loadSnapshot: new Uint8Array(head) }, (create) => async (settings) => {
      settings.INITIAL_MEMORY = index.memoryBytes
      const made = await create(settings)
      const { API } = settings
      const restore = API.restoreSnapshot
      API.restoreSnapshot = (small) => {
        const restored = restore(small)
        fill(settings.HEAPU8, snapshot, index)
        return restored
      }
      return made
    })
  } finally {
    closeSync(snapshot)
  }
}

async function load(folder: string, how: object, around: (create: Create) => Create): Promise<Pyodide> {
  const [{ loadPyodide }, { default: create }] = (await Promise.all([
    import(pathToFileURL(`${folder}pyodide.mjs`).href),
    import(pathToFileURL(`${folder}pyodide.asm.mjs`).href),
  ])) as [{ loadPyodide(options: object): Promise<Pyodide> }, { default: Create }]
  const { info } = JSON.parse(readFileSync(`${folder}pyodide-lock.json`, 'utf8')) as { info: object }
  // Without a list of packages it has none to look for elsewhere.
  const lockFileContents = JSON.stringify({ info, packages: {} })
  const given = { ...options, ...how, indexURL: folder, packageBaseUrl: folder, lockFileContents }
  return await loadPyodide({ ...given, createPyodideModule: around(create) })
}

function fill(memory: Uint8Array, file: number, { headBytes, stretches }: SnapshotIndex): void {
  for (const [start, bytes] of stretches) {
    for (let done = 0; done < bytes; ) {
      const got = readSync(file, memory, start + done, bytes - done, headBytes + start + done)
      if (got === 0) throw new Error('The snapshot is too short.')
      done += got
    }
  }
}
