import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { ToolError } from '@gantry/contract'
import { checkTool } from '@gantry/core/internal/catalogs/tool-check'
import { parseJson } from '@gantry/core/internal/json/parse'
import { unlessAborted, within } from '@gantry/core/internal/resilience/abort'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import { type FolderFile, Refusal, readEntry, type TrustedFolder } from './entry.ts'
import { describedTool, manifestName } from './manifest.ts'

/** How files of a folder are read. */
export interface ReadOptions {
  readonly signal?: AbortSignal
  /** Reads a manifest that is not JSON. */
  readonly parse?: (file: string, text: string) => Promise<unknown>
  readonly load?: ImportModule
}

/** The result of a file. */
export interface LoadedFile {
  readonly tools: readonly DefinedTool[]
  /** Names of the files that it uses, which are not tools themselves. */
  readonly uses: readonly string[]
  /** Of the file and those that it puts to use. */
  readonly digest: string
}

const mostFiles = 500

/** Every candidate file with its result; `before` holds the results of the last successful loads. */
export async function readFiles(
  folder: TrustedFolder,
  options: ReadOptions,
  before: ReadonlyMap<string, LoadedFile>,
): Promise<readonly Found[]> {
  const names = await namesOf(folder)
  const [manifests, others] = sourcesOf(names)
  const files: Found[] = []
  for (const name of manifests) files.push(await toolsOfManifest(folder, name, names, options, before.get(name)))
  const used = new Set(files.flatMap(({ uses }) => uses))
  const doubts = files.flatMap((found) => (found.state === 'read' ? [] : [found]))
  for (const name of others.filter((other) => !used.has(other))) {
    const doubt = before.has(name) ? undefined : doubts.find(({ holds }) => holdsBack(holds, name))
    files.push(doubt === undefined ? await toolsOfModule(folder, name, options) : heldBack(name, doubt.file))
  }
  return files
}

/** Names in the folder without hidden files; files that are neither tools nor manifests are ignored. */
async function namesOf({ path }: TrustedFolder): Promise<ReadonlySet<string>> {
  const entries = await readdir(path, { withFileTypes: true })
  const files = entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith('.'))
  if (files.length <= mostFiles) return new Set(files.map(({ name }) => name).sort())
  throw new ToolError('CONFIG_INVALID', `The folder of tools ${path} holds more than ${mostFiles} files.`)
}

/** Manifests go first, because a module that one of them describes runs in a sandbox and nowhere else. */
function sourcesOf(names: ReadonlySet<string>): readonly [manifests: string[], others: string[]] {
  const all = [...names]
  return [
    all.filter((name) => manifestName.test(name)),
    all.filter((name) => moduleName.test(name) || name.endsWith('.py')),
  ]
}

export type Found = ({ readonly state: 'read'; readonly file: string } & LoadedFile) | FailedFile

/** The file may not be used, or cannot be for now. */
interface FailedFile {
  readonly state: 'refused' | 'broken'
  readonly file: string
  readonly reason: string
  readonly uses: readonly string[]
  readonly holds: Holds
}

async function toolsOfModule(folder: TrustedFolder, name: string, options: ReadOptions): Promise<Found> {
  try {
    const loaded = await fromModule(await readEntry(folder, name), options)
    return { state: 'read', file: name, ...checked(loaded) }
  } catch (error) {
    return failed(name, error, options, [], nothing)
  }
}

/**
 * However the manifest fails, a file that it describes, or described when it was last valid, must not become a module.
 */
async function toolsOfManifest(
  folder: TrustedFolder,
  name: string,
  names: ReadonlySet<string>,
  options: ReadOptions,
  before: LoadedFile | undefined,
): Promise<Found> {
  const base = manifestName.exec(name)?.[1] ?? ''
  const beside = [...names].filter((other) => other.replace(/\.[^.]*$/, '') === base)
  let meant: Meant = { uses: [], holds: 'all' }
  try {
    const file = await readEntry(folder, name)
    const said = await manifestOf(file, options)
    meant = meantBy(said, names)
    const loaded = checked(await fromManifest(folder, file, said, base, names))
    return { state: 'read', file: name, ...loaded, uses: [...beside, ...loaded.uses] }
  } catch (error) {
    return failed(name, error, options, [...beside, ...(before?.uses ?? []), ...meant.uses], meant.holds)
  }
}

function checked(loaded: LoadedFile): LoadedFile {
  for (const { tool } of loaded.tools) checkTool(tool)
  return loaded
}

function failed(
  file: string,
  error: unknown,
  { signal }: ReadOptions,
  uses: readonly string[],
  holds: Holds,
): FailedFile {
  signal?.throwIfAborted()
  return { state: error instanceof Refusal ? 'refused' : 'broken', file, reason: wordsOf(error), uses, holds }
}

function heldBack(file: string, manifest: string): FailedFile {
  const reason = `is kept from running in this process until ${manifest} is repaired, which may describe it`
  return { state: 'refused', file, reason, uses: [], holds: nothing }
}

async function fromModule(file: FolderFile, options: ReadOptions): Promise<LoadedFile> {
  const { name, digest } = file
  if (name.endsWith('.py')) throw new Refusal(`needs a manifest beside it: ${name.slice(0, -3)}.tool.json`)
  const { load = importHere, signal = new AbortController().signal } = options
  return { tools: await moduleTools(file, load, signal), digest, uses: [] }
}

async function fromManifest(
  folder: TrustedFolder,
  file: FolderFile,
  said: unknown,
  base: string,
  names: ReadonlySet<string>,
): Promise<LoadedFile> {
  const digests = [file.digest]
  const read = async (other: string): Promise<FolderFile> => {
    const found = await readEntry(folder, other)
    digests.push(found.digest)
    return found
  }
  const { tool, uses } = await describedTool(said, base, names, read)
  return { tools: [tool], uses, digest: digestOf(digests) }
}

async function manifestOf({ name, bytes }: FolderFile, { parse }: ReadOptions): Promise<unknown> {
  const text = bytes.toString('utf8')
  if (name.endsWith('.json')) return parseJson(text)
  if (parse === undefined) throw new Error('is YAML, which is not read here; write it as JSON')
  return parse(name, text)
}

function importHere(url: string): Promise<object> {
  return import(url)
}

const longest = 1_000

/** An error of the folder's own code may hold anything, but its author needs it. */
function wordsOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.length > longest ? `${message.slice(0, longest)}…` : message
}

/** One text for several. */
export function digestOf(texts: readonly string[]): string {
  return createHash('sha256').update(texts.join('\n')).digest('hex')
}

/** Modules that wait until a manifest is valid: all of them while it cannot be known what it describes. */
type Holds = 'all' | ReadonlySet<string>

/** The files that an invalid manifest refers to. */
interface Meant {
  /** The program and files that it names. */
  readonly uses: readonly string[]
  /** Files that it mentions elsewhere, for example under a misspelt key. */
  readonly holds: Holds
}

const nothing: Holds = new Set()

/** Looser than a valid manifest: also by paths, other letter case, and a name without its extension. */
function meantBy(said: unknown, names: ReadonlySet<string>): Meant {
  const text = JSON.stringify(said)?.toLowerCase()
  if (text === undefined) return { uses: [], holds: 'all' }
  const { program, files } = (said ?? {}) as { readonly program?: unknown; readonly files?: unknown }
  const listed = [program, ...(Array.isArray(files) ? files : [])]
  return {
    uses: listed.filter((name) => typeof name === 'string'),
    holds: new Set([...names].filter((name) => speaksOf(text, name.toLowerCase()))),
  }
}

function holdsBack(holds: Holds, name: string): boolean {
  return moduleName.test(name) && (holds === 'all' || holds.has(name))
}

function speaksOf(text: string, name: string): boolean {
  const stem = name.replace(/\.[^.]*$/, '')
  return [name, `"${stem}"`, `/${stem}"`].some((said) => text.includes(said))
}

/** Imports a module by its address. */
type ImportModule = (url: string) => Promise<object>

/** A module of a folder that is tools. */
const moduleName = /^(?!.*\.(?:test|d)\.).+\.(?:m?[jt]s)$/

const mostMs = 30_000

/**
 * The tools that a module exports, under any names, alone or in lists. The content of the file is part of its import URL,
 * so that a changed file is another module and an unchanged one does not run twice; its own imports are not reloaded.
 */
async function moduleTools(
  { path, digest }: FolderFile,
  load: ImportModule,
  signal: AbortSignal,
): Promise<DefinedTool[]> {
  const url = pathToFileURL(path)
  url.searchParams.set('version', digest.slice(0, 16))
  const exported = Object.values(await inTime(load(url.href), signal))
  const tools = [...new Set(exported.flat().filter(isDefinedTool))]
  if (tools.length === 0) throw new Error('exports nothing that defineTool returned')
  return tools
}

function isDefinedTool(value: unknown): value is DefinedTool {
  return typeof value === 'object' && value !== null && 'tool' in value && 'run' in value
}

/** A module that never finishes must not hang the start. */
function inTime<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return within(mostMs, unlessAborted(work, signal), () => {
    throw new Error(`did not finish within ${mostMs} ms`)
  })
}
