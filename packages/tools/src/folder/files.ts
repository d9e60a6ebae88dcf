import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { ToolError } from '@gantry/contract'
import { checkTool } from '@gantry/core/internal/catalogs/tool-check'
import { parseJson } from '@gantry/core/internal/json/parse'
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

/** What a file gave. */
export interface LoadedFile {
  readonly tools: readonly DefinedTool[]
  /** Names of the files that it puts to use, which are no tools by themselves. */
  readonly uses: readonly string[]
  /** Of the file and those that it puts to use. */
  readonly digest: string
}

const mostFiles = 500

/** Every file that may be tools, with what became of it; `before` is what they gave when they were last in order. */
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

/** Names in the folder, without those that are hidden; what is neither tool nor description is left alone. */
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

/** It may not be used, or cannot be for now. */
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

/** However the manifest fails, what it describes, or described when it was last in order, must not become a module. */
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
  const reason = `is kept from running in this process until ${manifest} is mended, which may describe it`
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

/** An error of the folder's own code may hold anything, but it is what its writer needs. */
function wordsOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.length > longest ? `${message.slice(0, longest)}…` : message
}

/** One text for several. */
export function digestOf(texts: readonly string[]): string {
  return createHash('sha256').update(texts.join('\n')).digest('hex')
}

/** Modules that wait until a manifest is in order: all, as long as nobody can tell what it describes. */
type Holds = 'all' | ReadonlySet<string>

/** What a manifest that failed means by what it says. */
interface Meant {
  /** What it names as its program and files. */
  readonly uses: readonly string[]
  /** What it speaks of in any other way, as under a key with a slip in it. */
  readonly holds: Holds
}

const nothing: Holds = new Set()

/** Goes by less than a manifest in order does: by paths, other letters of a case, and a name without its end. */
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
 * The tools that a module exports, by whatever names, alone or in lists. What the file says is part of its address, so
 * that a changed file is another module and an unchanged one is not run twice; what it imports stays as it was.
 */
async function moduleTools(
  { path, digest }: FolderFile,
  load: ImportModule,
  signal: AbortSignal,
): Promise<DefinedTool[]> {
  const url = pathToFileURL(path)
  url.searchParams.set('version', digest.slice(0, 16))
  const exported = Object.values(await soon(load(url.href), signal))
  const tools = [...new Set(exported.flat().filter(isDefinedTool))]
  if (tools.length === 0) throw new Error('exports nothing that defineTool returned')
  return tools
}

function isDefinedTool(value: unknown): value is DefinedTool {
  return typeof value === 'object' && value !== null && 'tool' in value && 'run' in value
}

/** A module that never finishes must not hang the start. */
async function soon<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stop = Promise.withResolvers<never>()
  const timer = setTimeout(() => stop.reject(new Error(`did not finish within ${mostMs} ms`)), mostMs)
  const cancel = (): void => stop.reject(signal.reason)
  signal.addEventListener('abort', cancel, { once: true })
  try {
    return await Promise.race([work, stop.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}
