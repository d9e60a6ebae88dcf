import type { ApprovalFile, ApprovalNote, ApprovalView } from '@gantry/client'
import { usageError } from '../errors.ts'
import type { Command } from '../io.ts'
import { factsText, moreText, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'
import { watchApprovals } from './watch-approvals.ts'

/** Lists the calls of a service that wait for a person, newest first. */
export const listApprovals: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, json, all, watch } = options
    if (watch === true) {
      if (cursor !== undefined || limit !== undefined) {
        throw usageError('--watch', '--watch follows all approvals; leave out --limit and --cursor.')
      }
      return watchApprovals(client, options, io)
    }
    const state = all === true ? 'all' : 'open'
    const page = await client.approvals.list({ state, limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No call waits for approval.\n')
    else {
      const rows = page.items.map(({ id, state, tool, principal, expiresAt, reason }) => {
        return [id, state, tool, principal, expiresAt, reason]
      })
      const head = ['approval', 'state', 'tool', 'caller', 'expires', 'reason']
      await io.out(tableText(head, rows, io) + moreText(page.cursor))
    }
    return 0
  })

/** Shows one call that waits for a person, with its arguments. */
export const showApproval: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const approval = await client.approvals.get(id, { full: options.full, signal: io.signal })
    if (options.json === true) await printJson(approval, io)
    else await io.out(approvalText(approval))
    return 0
  })

/** Lets a call go on that waits for a person. */
export const approveCall: Command = (line, io) => decide('approve', line, io)

/** Ends a call that waits for a person. */
export const denyCall: Command = (line, io) => decide('deny', line, io)

/** Decides on a call that waits for a person. */
export function decide(
  decision: 'approve' | 'deny',
  { operands: [id = ''], options }: Parameters<Command>[0],
  io: Parameters<Command>[1],
): Promise<number> {
  return withService(options, io, async (client) => {
    const approval = await client.approvals[decision](id, { reason: options.reason, signal: io.signal })
    const [tool, callId] = [safeLine(approval.tool), safeLine(approval.callId)]
    const own = approval.decided?.as === undefined ? '' : ` (your own call, as ${approval.decided.as})`
    const done = decision === 'approve' ? `Approved${own}: ${tool} continues` : `Denied${own}: ${tool} does not run`
    if (options.json === true) await printJson(approval, io)
    else await io.out(`${done}; gantry call ${callId} shows its state.\n`)
    return 0
  })
}

/** One approval for a person: what is asked, the arguments exactly, and what a reader of them could miss. */
export function approvalText(approval: ApprovalView): string {
  const { id, state, callId, innerId, tool, principal, reason, approvers, fingerprint, decided, webhook } = approval
  const asked = { approval: id, state, call: callId, step: innerId, tool, caller: principal, reason }
  const times = { asked: approval.askedAt, expires: approval.expiresAt }
  const who = { approvers: approvers.length === 0 ? undefined : approvers.join(', '), fingerprint }
  const args = `${approval.argsBytes} bytes${approval.argsSha256 === undefined ? '' : ` sha256:${approval.argsSha256}`}`
  const lines = factsText({
    ...asked,
    ...times,
    ...who,
    decided: decided && decidedText(decided),
    webhook: webhook && webhookText(webhook),
    arguments: args,
  })
  const shown = approval.args === undefined ? '' : `${exactJson(approval.args)}\n`
  return `${lines}${shown}${remarks(approval)}`
}

function webhookText({ state, tries, error }: NonNullable<ApprovalView['webhook']>): string {
  const attempts = `${tries} ${tries === 1 ? 'attempt' : 'attempts'}`
  if (state === 'sent') return `has the message (${attempts})`
  const end = state === 'failed' ? 'given up; gantry dlq ls has it' : 'is tried again'
  return `has no message after ${attempts}; ${end}${error === undefined ? '' : `: ${error}`}`
}

function decidedText({ at, by, why, as }: NonNullable<ApprovalView['decided']>): string {
  return `${at} by ${by}${as === undefined ? '' : `, the caller itself, as ${as}`}${why === undefined ? '' : `: ${why}`}`
}

function remarks({
  id,
  args,
  truncated = [],
  hidden = [],
  notes = [],
  notesOmitted,
  files = [],
}: ApprovalView): string {
  const lines = [
    ...files.map(fileText),
    ...notes.map(noteText),
    ...(notesOmitted === undefined ? [] : [`notes: ${notesOmitted} more are left out; read the arguments themselves`]),
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

/** Characters that a terminal would not show: controls, directions, joiners, odd spaces, and private use. */
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
