import { type Content, type ErrorDetails, type Issue, type Result, ToolError } from '@gantry/contract'
import { defaultMaxChars } from './adapter.ts'

/** An outcome for a model: texts within the limit, and other content that the format supports. */
export interface Rendered {
  readonly isError: boolean
  readonly parts: readonly Content[]
}

export interface RenderOptions {
  readonly maxChars?: number | undefined
  /** Content types other than text that the format supports; the others are described as text. */
  readonly holds: (content: Content) => boolean
}

/** The largest image, in characters of base64: 5 MB, the limit of Anthropic. */
const largestData = 6_990_508

/** Renders a Result, or the error of a refused call, for a model. */
export function render(outcome: Result | ToolError, { maxChars = defaultMaxChars, holds }: RenderOptions): Rendered {
  const error = ToolError.is(outcome) ? outcome : outcome.error
  const content = ToolError.is(outcome) ? [] : contentOf(outcome)
  const parts =
    error === undefined ? content : [text(errorText(error)), ...content.filter(({ type }) => type !== 'text')]
  const carried = parts.map((part) => (isCarried(part, holds) ? part : text(inWords(part))))
  return {
    isError: error !== undefined || (!ToolError.is(outcome) && outcome.status !== 'ok'),
    parts: cut(carried, maxChars),
  }
}

/** All texts of what was rendered, as one. */
export function textOf(parts: readonly Content[]): string {
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
}

function text(value: string): Content {
  return { type: 'text', text: value }
}

/** The content of the tool, its output when no text has it, and links to artifacts. */
function contentOf({ content, output, error, artifacts }: Result): Content[] {
  const hasText = content.some(({ type }) => type === 'text' || type === 'resource')
  const said =
    hasText || error !== undefined || (output === null && content.length > 0) ? [] : [text(outputText(output))]
  const files = artifacts.map(({ id, name, mimeType, bytes }) =>
    text(`[file ${name}, ${mimeType}, ${bytes} bytes, kept as ${id}]`),
  )
  return [...said, ...content, ...files]
}

function outputText(output: Result['output']): string {
  return typeof output === 'string' ? output : (JSON.stringify(output) ?? 'null')
}

function isCarried(part: Content, holds: RenderOptions['holds']): boolean {
  if (part.type === 'text') return typeof part.text === 'string'
  const data = part.type === 'image' || part.type === 'audio' ? part.data : ''
  return typeof data === 'string' && data.length <= largestData && holds(part)
}

/** A text description of unsupported content; a text resource becomes its text. */
function inWords(part: Content): string {
  switch (part.type) {
    case 'image':
    case 'audio':
      return `[${part.type} ${part.mimeType}, about ${Math.round((String(part.data).length * 3) / 4)} bytes, not shown here]`
    case 'resource_link':
      return `[resource ${part.name} at ${part.uri}${part.mimeType === undefined ? '' : `, ${part.mimeType}`}]`
    case 'resource':
      return typeof part.resource?.text === 'string' ? part.resource.text : `[resource ${String(part.resource?.uri)}]`
    default:
      return '[content of an unknown kind]'
  }
}

/** The kind of error that both a Result and a thrown ToolError have. */
type Failure = Pick<ToolError, 'code' | 'message' | 'retryable' | 'effect'> & {
  readonly details?: ErrorDetails | undefined
}

const mostIssues = 20

/** Code, message, failing paths and remedy as text; a path that the message contains is not repeated. */
export function errorText(error: Failure): string {
  const issues = issuesOf(error.details)
  const rest = issues.filter(({ path, message }) => !error.message.includes(`${path} ${message}`))
  const lines = rest.slice(0, mostIssues).map(({ path, message }) => `- ${path || '(the arguments)'} ${message}`)
  if (rest.length > mostIssues) lines.push(`- and ${rest.length - mostIssues} more`)
  return [`Error ${error.code}: ${error.message}`, ...lines, advice(error, issues.length > 0)].join('\n')
}

function issuesOf(details: ErrorDetails | undefined): readonly Issue[] {
  const issues: unknown = details?.issues
  return Array.isArray(issues) ? issues : []
}

/** The remedy for the model; a possible effect takes precedence. */
function advice({ code, details, retryable, effect }: Failure, hasIssues: boolean): string {
  const near: unknown = details?.nearest
  if (Array.isArray(near) && near.length > 0) return `Did you mean ${near.slice(0, 5).join(', ')}?`
  if (code === 'TOOL_NOT_FOUND') return 'Use one of the tools that you were given.'
  if (code === 'CATALOG_STALE') return 'The tool changed meanwhile; it must be read again before it can be called.'
  if (code === 'DENIED' || code === 'APPROVAL_REQUIRED') return 'Do not try again unless the user gets the permission.'
  if (effect === 'possible') return 'It may have taken effect; check that before you call it again.'
  if (hasIssues) return 'Nothing has happened. Correct this and call the tool again.'
  if (!retryable) return 'Nothing has happened. The same call would fail again.'
  const wait = details?.retryAfterMs
  const when = typeof wait === 'number' ? `in ${Math.ceil(wait / 1_000)} s` : 'later'
  return `Nothing has happened. The same call may succeed ${when}.`
}

/** Limits the total length of texts: the text that exceeds it is truncated in the middle, later ones are dropped. */
function cut(parts: readonly Content[], maxChars: number): Content[] {
  const kept: Content[] = []
  let left = maxChars
  let gone = 0
  for (const part of parts) {
    if (part.type !== 'text') kept.push(part)
    else if (left <= 0) gone += 1
    else {
      kept.push(part.text.length <= left ? part : text(headAndTail(part.text, left)))
      left -= part.text.length
    }
  }
  if (gone > 0) kept.push(text(`[${gone} more pieces of text were left out; ask for less]`))
  return kept
}

/** The beginning and the end of a text that is too long, with a note between them. */
export function headAndTail(whole: string, maxChars: number): string {
  if (whole.length <= maxChars) return whole
  const note = `\n[… ${whole.length} characters in all, the middle was left out; ask for less …]\n`
  const space = Math.max(0, maxChars - note.length)
  const head = Math.ceil((space * 2) / 3)
  return (whole.slice(0, head) + note + whole.slice(whole.length - (space - head))).toWellFormed()
}
