// Receives messages of approvals.webhook, checks their signature, and forwards them as Slack and as mail take them.
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type ApprovalMessage, ToolError, verifyCallback } from '@gantry/client'

export interface Mail {
  readonly subject: string
  readonly text: string
}

/** Larger than any message: arguments are previews beyond 256 KiB. */
const mostBytes = 4_194_304
const longestShown = 2_000

/** Forwards each message once. A failure of `forward` answers 500, and the service sends the message again. */
export function approvalReceiver(secret: string, forward: (message: ApprovalMessage) => Promise<void>): Server {
  const done = new Set<string>()
  const handle = async (request: IncomingMessage): Promise<number> => {
    const body = await bodyOf(request)
    if (body === undefined) return 413
    // Nothing of an unsigned message is read.
    const message = (await verifyCallback(request.headers, body, secret)) as unknown as ApprovalMessage
    const id = String(request.headers['webhook-id'])
    if (done.has(id)) return 204
    await forward(message)
    done.add(id)
    return 204
  }
  return createServer((request, response) => {
    handle(request).then(
      (status) => response.writeHead(status).end(),
      (error: unknown) => {
        const isForged = ToolError.is(error) && error.code === 'UNAUTHENTICATED'
        response.writeHead(isForged ? 401 : 500).end()
      },
    )
  })
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request) {
    bytes += piece.length
    if (bytes > mostBytes) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/**
 * Blocks for an incoming webhook of Slack. Text of callers is in `plain_text` and in preformatted rich text alone, which
 * have no markup: `<!channel>`, links and ``` stay what they are.
 */
export function slackMessage({ type, approval, commands, link }: ApprovalMessage) {
  const plain = (text: string) => ({ type: 'plain_text', text: clip(text), emoji: false })
  const code = (text: string) => ({
    type: 'rich_text',
    elements: [{ type: 'rich_text_preformatted', elements: [{ type: 'text', text: clip(text) }] }],
  })
  const facts = [`tool: ${approval.tool}`, `caller: ${approval.principal}`, `until: ${approval.expiresAt}`]
  return {
    text: titleOf(type, approval),
    blocks: [
      { type: 'section', text: plain(titleOf(type, approval)), fields: facts.map(plain) },
      { type: 'section', text: plain(approval.reason) },
      code([exact(approval.args), ...remarks(approval)].join('\n')),
      ...(commands === undefined ? [] : [code(`${commands.approve}\n${commands.deny}`)]),
      ...(link === undefined
        ? []
        : [{ type: 'actions', elements: [{ type: 'button', text: plain('Open'), url: link }] }]),
    ],
  }
}

/** A mail of plain text. Each line of the arguments begins with `| `, which no other line does. */
export function mailOf({ type, tenant, approval, commands, link }: ApprovalMessage): Mail {
  const { tool, principal, reason, expiresAt, argsBytes, argsSha256, decided } = approval
  const facts = { tool, caller: principal, tenant, reason, until: expiresAt, decided: decided?.by, why: decided?.why }
  const lines = [
    ...Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${oneLine(value)}`])),
    `arguments: ${argsBytes} bytes, sha256 ${argsSha256 ?? 'unknown'}`,
    ...exact(approval.args)
      .split('\n')
      .map((line) => `| ${line}`),
    ...remarks(approval),
    ...(commands === undefined ? [] : ['', commands.show, commands.approve, commands.deny]),
    ...(link === undefined ? [] : ['', link]),
  ]
  return { subject: oneLine(titleOf(type, approval)), text: `${lines.join('\n')}\n` }
}

const titles = {
  'approval.requested': 'Approval needed',
  'approval.approved': 'Approved',
  'approval.denied': 'Denied',
  'approval.expired': 'Expired without a decision',
} as const

function titleOf(type: ApprovalMessage['type'], { id, tool }: ApprovalMessage['approval']): string {
  return `${titles[type]}: ${tool} (${id})`
}

/** What is not in the arguments as they are shown. */
function remarks({ hidden = [], truncated = [] }: ApprovalMessage['approval']): string[] {
  return [
    ...hidden.map((path) => `hidden: ${oneLine(path)}`),
    ...truncated.map((path) => `shown in part: ${oneLine(path === '' ? 'all arguments' : path)}`),
  ]
}

/** JSON of one line for each member; within a text, line breaks and characters that do not show are escaped. */
function exact(value: unknown): string {
  return JSON.stringify(value, undefined, 2).replace(/[\p{Cf}\p{Co}\p{DI}\p{Zl}\p{Zp}\u007f-\u009f]/gu, (found) =>
    Array.from(found, (one) => `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`).join(''),
  )
}

function oneLine(text: string): string {
  return exact(text).slice(1, -1)
}

function clip(text: string): string {
  return text.length <= longestShown ? text : `${text.slice(0, longestShown)}… (gantry approvals show has all of it)`
}
