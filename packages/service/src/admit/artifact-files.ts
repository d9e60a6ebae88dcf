import { buffer } from 'node:stream/consumers'
import { type Issue, type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { Artifacts } from '../records/artifacts.ts'
import type { Reader } from '../records/reader.ts'

export interface ArtifactFilesOptions {
  readonly artifacts: Pick<Artifacts, 'find' | 'open'>
  /** Whose artifacts may be named. */
  /** Who names them. */
  readonly reader: Reader
  readonly signal: AbortSignal
  /** Of all of them together; as many as a sandbox takes, unless told. */
  readonly maxBytes?: number
}

/** As many bytes and files as a sandbox takes. */
const sandboxBytes = 67_108_864
const mostFiles = 1_000

/** Tools whose `files` may name artifacts. */
const takesFiles = /^(?:code|shell):run(?:$|:)/

/**
 * Puts the content of artifacts into the arguments of a tool that takes files: `{ artifact }` becomes `{ base64 }`. The
 * arguments of other tools, and other files, stay as they are.
 * - Errors: NOT_FOUND for an artifact that is not there for who names it; INPUT_INVALID for more bytes than a sandbox takes.
 */
export async function resolveArtifactFiles(
  tool: string,
  args: JsonObject,
  options: ArtifactFilesOptions,
): Promise<JsonObject> {
  const { files } = args
  if (!takesFiles.test(tool) || !isObject(files)) return args
  const named = Object.entries(files).flatMap(([path, file]) => {
    const id = isObject(file) && Object.keys(file).length === 1 ? file.artifact : undefined
    return typeof id === 'string' ? [{ path, id }] : []
  })
  if (named.length === 0) return args
  await checkSizes(named, options)
  const resolved = { ...files }
  for (const { path, id } of named) resolved[path] = { base64: await contentOf(id, options) }
  return { ...args, files: resolved }
}

/** The same for every step of a chain that names artifacts outright; what references give is only known later. */
export async function resolveChainFiles(chain: JsonObject, options: ArtifactFilesOptions): Promise<JsonObject> {
  const resolve = async (steps: Json | undefined): Promise<Json[]> => {
    const resolved: Json[] = []
    for (const step of Array.isArray(steps) ? steps : []) resolved.push(isObject(step) ? await resolveStep(step) : step)
    return resolved
  }
  const resolveStep = async (step: JsonObject): Promise<JsonObject> => {
    const { tool, args, parallel } = step
    if (Array.isArray(parallel)) return { ...step, parallel: await resolve(parallel) }
    if (typeof tool !== 'string' || !isObject(args)) return step
    return { ...step, args: await resolveArtifactFiles(tool, args, options) }
  }
  return { ...chain, steps: await resolve(chain.steps) }
}

interface Named {
  readonly path: string
  readonly id: string
}

/** Looks before anything is read, so that what is too much is refused and not half loaded. */
async function checkSizes(named: readonly Named[], options: ArtifactFilesOptions): Promise<void> {
  const { artifacts, reader, maxBytes = sandboxBytes } = options
  if (named.length > mostFiles) throw invalid({ path: '/files', message: `names more than ${mostFiles} artifacts` })
  let left = maxBytes
  for (const { path, id } of named) {
    left -= (await artifacts.find(id, reader)).bytes
    if (left < 0) throw invalid({ path: pointerTo(path), message: `takes the artifacts over ${maxBytes} bytes` })
  }
}

async function contentOf(id: string, { artifacts, reader, signal }: ArtifactFilesOptions): Promise<string> {
  const { content } = await artifacts.open(id, reader, undefined, signal)
  return (await buffer(content)).toString('base64')
}

function pointerTo(path: string): string {
  const segment = path.length > 200 ? `${path.slice(0, 200)}…` : path
  return `/files/${segment.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')}`
}

function invalid(issue: Issue): ToolError {
  const message = `The files cannot be had: ${issue.path} ${issue.message}.`
  return new ToolError('INPUT_INVALID', message, { details: { issues: [issue] } })
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
