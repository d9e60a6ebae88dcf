import { readFileSync, statSync } from 'node:fs'
import { mkdir, open, realpath } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path'
import type { Client } from '@gantry/client'
import { type Json, type JsonObject, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readTextFile, textLimit } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson, printOutcome, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Stores a file of this machine for later calls. */
export const putFile: Command = ({ operands: [file = ''], options }, io) =>
  withService(options, io, async (client) => {
    const base64 = readBytes('<file>', file, io).toString('base64')
    const result = await client.call(
      'files:put',
      { name: options.name ?? basename(file), base64 },
      { signal: io.signal },
    )
    if (options.json === true || result.status !== 'ok') return printOutcome(result, options.json, io)
    const { id, name, bytes } = membersOf(result)
    io.err(
      `Stored ${safeLine(String(name))}, ${String(bytes)} bytes. A call takes it as {"artifact": "${safeLine(String(id))}"}.\n`,
    )
    await io.out(`${safeLine(String(id))}\n`)
    return 0
  })

/** Lists stored files, newest first. */
export const listFiles: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor } = options
    const args = { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) }
    const result = await client.call('files:list', args, { signal: io.signal })
    if (options.json === true || result.status !== 'ok') return printOutcome(result, options.json, io)
    const { items, cursor: next } = membersOf(result)
    const rows = (Array.isArray(items) ? items : []).map((item) => {
      const { id, name, mimeType, bytes } = isObject(item) ? item : {}
      return [id, name, mimeType, bytes].map((cell) => String(cell ?? ''))
    })
    if (rows.length === 0) await io.out('No files.\n')
    else await io.out(tableText(['file', 'name', 'type', 'bytes'], rows, io))
    if (typeof next === 'string') await io.out(`More: --cursor ${safeLine(next)}\n`)
    return 0
  })

/** Writes a stored file to this machine, or to stdout with --out -. */
export const getFile: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    if (options.out === '-') {
      for await (const piece of contentOf(client, id, io)) process.stdout.write(piece)
      return 0
    }
    const info = await client.call('files:info', { id }, { signal: io.signal })
    if (info.status !== 'ok') return printOutcome(info, options.json, io)
    const { name, bytes } = membersOf(info)
    // The name is that of its creator; only its last part counts here.
    const file = resolve(io.folder, options.out ?? basename(String(name)))
    await writeNew(file, contentOf(client, id, io), options.force === true)
    if (options.json === true) await printJson({ file, bytes: bytes ?? null }, io)
    else await io.out(`${safeLine(file)}\n`)
    return 0
  })

/** Removes stored files. */
export const removeFiles: Command = ({ operands, options }, io) =>
  withService(options, io, async (client) => {
    const removed: string[] = []
    for (const id of operands) {
      const result = await client.call('files:remove', { id }, { signal: io.signal })
      if (result.status !== 'ok') return printOutcome(result, options.json, io)
      if (membersOf(result).removed === true) removed.push(id)
      else io.err(`There is no file ${safeLine(id)} of yours.\n`)
    }
    if (options.json === true) await printJson({ removed }, io)
    else await io.out(`Removed ${removed.length} of ${operands.length}.\n`)
    return 0
  })

function membersOf({ output }: Result): JsonObject {
  return isObject(output) ? (output as JsonObject) : {}
}

async function* contentOf(client: Client, id: string, io: Io): AsyncGenerator<Uint8Array> {
  const { body } = await client.artifact(id, { signal: io.signal })
  if (body !== null) yield* body
}

function readBytes(name: string, file: string, io: Io): Buffer {
  const path = resolve(io.folder, file)
  try {
    const found = statSync(path)
    if (!found.isFile()) throw new Error('it is not a regular file')
    if (found.size > textLimit) throw new Error(`it has more than ${textLimit} bytes`)
    return readFileSync(path)
  } catch (cause) {
    throw new ToolError('PAYLOAD_INVALID', `The file ${file} for ${name} cannot be read: ${reasonOf(cause)}.`, {
      cause,
      details: { file: path },
    })
  }
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}

const languages: { readonly [extension: string]: string } = {
  '.bash': 'bash',
  '.c': 'c',
  '.cjs': 'javascript',
  '.cpp': 'cpp',
  '.js': 'javascript',
  '.mjs': 'javascript',
  '.mts': 'typescript',
  '.pl': 'perl',
  '.py': 'python',
  '.sh': 'bash',
  '.ts': 'typescript',
}

/** Arguments with the files of --file in `files`, and the program of --code in `code`, or in `script` of a shell tool. */
export async function withFiles(tool: string, args: Json, options: OptionValues, io: Io): Promise<Json> {
  const { file: given = [], code } = options
  if (given.length === 0 && code === undefined) return args
  if (!isObject(args)) throw usageError('<json>', 'With --file or --code the arguments must be an object.')
  const files: { [path: string]: Json } = Object.create(null)
  for (const one of given) {
    const at = one.indexOf('=')
    const [path, from] = at === -1 ? [basename(one), one] : [one.slice(0, at), one.slice(at + 1)]
    files[path] = from.startsWith('art_')
      ? { artifact: from }
      : { base64: readBytes('--file', from, io).toString('base64') }
  }
  const handed = given.length === 0 ? {} : { files: { ...(isObject(args.files) ? args.files : {}), ...files } }
  return { ...args, ...handed, ...(code === undefined ? {} : await programOf(tool, code, args, io)) } as JsonObject
}

async function programOf(tool: string, given: string, args: object, io: Io): Promise<JsonObject> {
  const text =
    given === '-'
      ? await io.readInput(textLimit)
      : given.startsWith('@')
        ? readTextFile('--code', given.slice(1), io)
        : given
  if (tool.startsWith('shell:')) return { script: text }
  if ('language' in args) return { code: text }
  const language = given.startsWith('@') ? languages[extname(given).toLowerCase()] : undefined
  if (language !== undefined) return { language, code: text }
  throw usageError(
    '--code',
    `The language of ${given.startsWith('@') ? given : 'the code'} is not known; add it: '{"language":"python"}'.`,
  )
}

export interface SavedFiles {
  readonly saved: readonly string[]
  /** Paths that were not written, because programs of this machine execute or obey files of such a name. */
  readonly withheld: readonly string[]
}

/**
 * Writes the files of an output below a folder. Paths come from the program and are hostile: a path that leaves the
 * folder is refused, also through a link. Only --force replaces an existing file, and writes one that is obeyed where it is.
 */
export async function saveFiles(
  output: Json,
  folder: string,
  { force, read }: { readonly force: boolean; readonly read: (id: string) => AsyncIterable<Uint8Array> },
): Promise<SavedFiles> {
  if (!isObject(output) || !isObject(output.files)) return { saved: [], withheld: [] }
  await mkdir(folder, { recursive: true })
  const root = await realpath(folder)
  const saved: string[] = []
  const withheld: string[] = []
  for (const [path, file] of Object.entries(output.files)) {
    const target = join(root, path)
    if (!isBelow(root, target)) throw outside(path)
    if (!force && isObeyed(relative(root, target))) {
      withheld.push(path)
      continue
    }
    // Checked before and after: mkdir goes through a link, and would make folders outside.
    if (!isBelow(root, join(await deepestReal(dirname(target)), basename(target)))) throw outside(path)
    await mkdir(dirname(target), { recursive: true })
    if (!isBelow(root, join(await realpath(dirname(target)), basename(target)))) throw outside(path)
    await writeNew(target, bytesOf(file, read), force)
    saved.push(target)
  }
  return { saved, withheld }
}

/** Whether a file takes effect by lying where it is: a configuration of Gantry, a hidden file or folder, a module of npm. */
function isObeyed(path: string): boolean {
  return path
    .toLowerCase()
    .split(sep)
    .some((part) => part.startsWith('.') || part === 'node_modules' || part.startsWith('gantry.config.'))
}

/** The real path of the deepest part of a path that exists. */
async function deepestReal(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (cause) {
    const above = dirname(path)
    if (above === path) throw cause
    return deepestReal(above)
  }
}

function isBelow(root: string, target: string): boolean {
  const path = relative(root, target)
  return path !== '' && path !== '..' && !path.startsWith(`..${sep}`)
}

function outside(path: string): ToolError {
  return new ToolError(
    'OUTPUT_INVALID',
    `The program names the file ${JSON.stringify(path.slice(0, 200))}, which is outside of the folder of --out.`,
  )
}

async function* bytesOf(file: unknown, read: (id: string) => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (typeof file === 'string') yield Buffer.from(file)
  else if (isObject(file) && typeof file.base64 === 'string') yield Buffer.from(file.base64, 'base64')
  else if (isObject(file) && typeof file.artifact === 'string') yield* read(file.artifact)
}

/** Follows no link at the place of the file itself. */
async function writeNew(file: string, pieces: AsyncIterable<Uint8Array>, force: boolean): Promise<void> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_TRUNC, O_WRONLY } = (await import('node:fs')).constants
  const flags = O_WRONLY | O_CREAT | O_NOFOLLOW | (force ? O_TRUNC : O_EXCL)
  const handle = await open(file, flags, 0o644).catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === 'EEXIST' ? 'exists; --force replaces it' : `cannot be written: ${cause.message}`
    throw new ToolError('INPUT_INVALID', `The file ${file} ${why}.`, { stage: 'admit', cause })
  })
  try {
    for await (const piece of pieces) await handle.writeFile(piece)
  } finally {
    await handle.close()
  }
}
