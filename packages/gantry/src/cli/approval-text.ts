import type { ApprovalFile, ApprovalNote, ApprovalView } from '@gantry/client'
import { factsText } from './table.ts'
import { safeLine } from './terminal.ts'

/** One approval for a person: what is asked, the arguments exactly, and what a reader of them could miss. */
export function approvalText(approval: ApprovalView): string {
  const { id, state, callId, innerId, tool, principal, reason, approvers, fingerprint, decided } = approval
  const asked = { approval: id, state, call: callId, step: innerId, tool, caller: principal, reason }
  const times = { asked: approval.askedAt, expires: approval.expiresAt }
  const who = { approvers: approvers.length === 0 ? undefined : approvers.join(', '), fingerprint }
  const args = `${approval.argsBytes} bytes${approval.argsSha256 === undefined ? '' : ` sha256:${approval.argsSha256}`}`
  const lines = factsText({ ...asked, ...times, ...who, decided: decided && decidedText(decided), arguments: args })
  const shown = approval.args === undefined ? '' : `${exactJson(approval.args)}\n`
  return `${lines}${shown}${remarks(approval)}`
}

function decidedText({ at, by, why, as }: NonNullable<ApprovalView['decided']>): string {
  return `${at} by ${by}${as === undefined ? '' : `, the caller itself, as ${as}`}${why === undefined ? '' : `: ${why}`}`
}

function remarks({ id, args, truncated = [], hidden = [], notes = [], files = [] }: ApprovalView): string {
  const lines = [
    ...files.map(fileText),
    ...notes.map(noteText),
    ...hidden.map((path) => `hidden: ${path} is not shown; its length and digest are`),
    ...truncated.filter((path) => path !== '').map((path) => `truncated: ${path} is shown in part`),
    ...(args === undefined || truncated.length > 0
      ? [`truncated: gantry approvals show ${id} --full shows all of the arguments`]
      : []),
  ]
  return lines.map((line) => `${safeLine(line)}\n`).join('')
}

function fileText({ path, id, name, mimeType, bytes, digest }: ApprovalFile): string {
  if (digest === undefined) return `file: ${path} names ${JSON.stringify(id)}, which is no file that the caller has`
  return `file: ${path} is ${JSON.stringify(name)}, ${mimeType}, ${bytes} bytes, ${digest}`
}

function noteText(note: ApprovalNote): string {
  const at = note.path === '' ? 'the arguments' : note.path
  if (note.kind === 'invisible') return `invisible: ${at} holds ${note.characters.join(', ')}`
  const user = note.userinfo === undefined ? '' : `, with the user information ${JSON.stringify(note.userinfo)}`
  return `url: ${at} leads to ${note.host}${user}, as ${note.url}`
}

/** What a terminal would not show as it is: controls, directions, joiners, spaces that are none, and private letters. */
const unseen = /[\u007f-\u009f\p{Cf}\p{Co}\p{Cn}\p{DI}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}/gu

/**
 * JSON that a person can read and that means exactly the value: each line of a text of several lines is a text of its own,
 * one under the other with nothing between, and what would not show is spelled out.
 */
export function exactJson(value: unknown, indent = ''): string {
  const inner = `${indent}  `
  if (typeof value === 'string') {
    const lines = value.split(/(?<=\n)/)
    if (lines.length < 2) return exactText(value)
    return lines.map((line) => `\n${inner}${exactText(line)}`).join('')
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  const members = Array.isArray(value)
    ? value.map((item) => exactJson(item, inner).trimStart())
    : Object.entries(value).map(([key, member]) => `${exactText(key)}:${spaced(exactJson(member, inner))}`)
  if (members.length === 0) return `${open}${close}`
  return `${open}\n${members.map((member) => `${inner}${member}`).join(',\n')}\n${indent}${close}`
}

function spaced(text: string): string {
  return text.startsWith('\n') ? text : ` ${text}`
}

function exactText(text: string): string {
  return JSON.stringify(text).replace(unseen, (found) =>
    Array.from({ length: found.length }, (_, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(
      '',
    ),
  )
}
