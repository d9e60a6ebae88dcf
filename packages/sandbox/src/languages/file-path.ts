import { type Issue, type SandboxFile, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

/** Limits of the files of one job. */
export interface FileLimits {
  readonly files: number
  /** Total size of all files in the workspace. */
  readonly bytes: number
}

export const defaultFileLimits: FileLimits = { files: 1_000, bytes: 64 * 1_048_576 }

/** An input file: as a caller writes it, or its bytes. */
export type HandedFile = SandboxFile | Uint8Array

/** Limits of a path, well within those of file systems. */
const pathLimits = { bytes: 4_096, nameBytes: 255, depth: 32 } as const

/** The workspace folder that is reserved for the runtime. */
const hidden = '.gantry'

/** Control characters, Unicode line separators and bidirectional controls. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

/**
 * Returns what is wrong with a workspace path, in words that follow the path; undefined when it is valid. Applies to input
 * files and to names of collected files: relative, below the workspace, portable. A backslash is refused, though Linux
 * allows it in names, because it separates folders on Windows.
 */
export function checkPath(path: string): string | undefined {
  if (path === '') return 'is empty'
  if (!path.isWellFormed()) return 'holds half of a character pair'
  if (unprintable.test(path)) return 'holds a control character'
  if (path.includes('\\')) return 'holds a backslash; separate folders by /'
  if (path.startsWith('/')) return 'is not relative to the workspace'
  if (Buffer.byteLength(path) > pathLimits.bytes) return `is longer than ${pathLimits.bytes} bytes`
  const names = path.split('/')
  if (names.length > pathLimits.depth) return `is deeper than ${pathLimits.depth} folders`
  if (names[0] === hidden) return `is in ${hidden}, which is the runtime's own`
  for (const name of names) {
    if (name === '' || name === '.' || name === '..') return `has the part ${quote(name)}, which names no file`
    if (Buffer.byteLength(name) > pathLimits.nameBytes) return `has a part of more than ${pathLimits.nameBytes} bytes`
  }
  return undefined
}

/**
 * The files of a job as bytes, by checked path.
 * - Errors: INPUT_INVALID with one issue at `/files/<path>` for each invalid file, the first twenty of them.
 */
export function checkFiles(
  files: { readonly [path: string]: HandedFile },
  limits: FileLimits = defaultFileLimits,
): ReadonlyMap<string, Uint8Array> {
  const paths = Object.keys(files)
  if (paths.length > limits.files) throw invalid([{ path: '/files', message: `holds more than ${limits.files} files` }])
  const checked = new Map<string, Uint8Array>()
  const issues: Issue[] = []
  let bytes = 0
  for (const [path, file] of Object.entries(files)) {
    const content = contentOf(file)
    const fault = checkPath(path) ?? folderFault(path, files) ?? (typeof content === 'string' ? content : undefined)
    if (fault !== undefined) issues.push({ path: pointerTo(path), message: fault })
    if (typeof content === 'string') continue
    bytes += content.length
    checked.set(path, content)
  }
  if (bytes > limits.bytes) issues.push({ path: '/files', message: `hold more than ${limits.bytes} bytes together` })
  if (issues.length > 0) throw invalid(issues)
  return checked
}

/** The bytes of a file, or the reason why it is invalid. */
function contentOf(file: HandedFile): Uint8Array | string {
  if (file instanceof Uint8Array) return file
  if (typeof file === 'string') return file.isWellFormed() ? Buffer.from(file) : 'holds half of a character pair'
  if ('artifact' in file) return 'is an artifact, which cannot be read here; send text or base64'
  const bytes = Buffer.from(file.base64, 'base64')
  return bytes.toString('base64') === file.base64 ? bytes : 'is not base64 in its standard form, with padding'
}

/** A file cannot also be the folder of another file. */
function folderFault(path: string, files: { readonly [path: string]: HandedFile }): string | undefined {
  for (let end = path.indexOf('/'); end > 0; end = path.indexOf('/', end + 1)) {
    const folder = path.slice(0, end)
    if (Object.hasOwn(files, folder)) return `lies in ${quote(folder)}, which is a file too`
  }
  return undefined
}

function pointerTo(path: string): string {
  return `/files/${escapeSegment(path.length > 200 ? `${path.slice(0, 200)}…` : path).toWellFormed()}`
}

const shownIssues = 20

function invalid(all: readonly Issue[]): ToolError {
  const issues = all.slice(0, shownIssues)
  const text = issues.map(({ path, message }) => `${quote(path)} ${message}`).join('; ')
  const more = all.length > issues.length ? `; and ${all.length - issues.length} more` : ''
  return new ToolError('INPUT_INVALID', `Invalid files: ${text}${more}.`, { details: { issues } })
}
