import { randomBytes } from 'node:crypto'
import {
  type CallToolResult,
  type ClientCapabilities,
  createRequestStateCodec,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  MissingRequiredClientCapabilityError,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { McpTool } from '../../mcp/src/server/tool-list.ts'

/** Tools that send a request to their client: none of Gantry's tools does, so that an extension adds them. */
export type Asking = (ctx: ServerContext, args: { readonly [name: string]: unknown }) => Asked | Promise<Asked>
type Asked = CallToolResult | InputRequiredResult

export const stateCodec = createRequestStateCodec({ key: randomBytes(32) })

function said(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

type Properties = { readonly [name: string]: object }

/** A form for a person, as a question. */
function form(message: string, properties: Properties, required: readonly string[] = Object.keys(properties)) {
  return inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties, required: [...required] },
  } as never)
}

function sampling(text: string, maxTokens: number) {
  return inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens })
}

const name = { name: { type: 'string' } }

interface Answered {
  readonly action?: string
  readonly content?: unknown
}

/** The client's response to a request, if it is usable. */
function answer(ctx: ServerContext, key: string): Answered | undefined {
  const given = ctx.mcpReq.inputResponses?.[key]
  return typeof given === 'object' && given !== null ? (given as Answered) : undefined
}

function accepted(ctx: ServerContext, key: string): { readonly [name: string]: unknown } | undefined {
  const given = answer(ctx, key)
  const good = given?.action === 'accept' && typeof given.content === 'object' && given.content !== null
  return good ? (given.content as { readonly [name: string]: unknown }) : undefined
}

function asks(inputRequests: InputRequests, requestState?: string): InputRequiredResult {
  return inputRequired({ inputRequests, ...(requestState === undefined ? {} : { requestState }) } as never)
}

/** Sends one request to the client and returns its response, as the scenarios of 2025-11-25 require. */
function elicits(
  prefix: (given: Answered) => string,
  message: (args: { readonly [name: string]: unknown }) => string,
  properties: Properties,
  required: readonly string[] = [],
): Asking {
  return (ctx, args) => {
    const given = answer(ctx, 'form')
    if (given === undefined) return asks({ form: form(message(args), properties, required) })
    return said(prefix(given))
  }
}

const completed = ({ action, content }: Answered): string =>
  `Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`

const options = (word: string, title: string) =>
  ['First', 'Second', 'Third'].map((which, index) => ({ const: `${word}${index + 1}`, title: `${which} ${title}` }))

export const askingTools: { readonly [name: string]: Asking } = {
  test_sampling(ctx, { prompt }) {
    const given = answer(ctx, 'asked')
    if (given === undefined) return asks({ asked: sampling(String(prompt), 100) })
    return said(`LLM response: ${(given.content as { readonly text?: string } | undefined)?.text ?? ''}`)
  },
  test_elicitation: elicits(
    ({ action, content }) => `User response: action=${action}, content=${JSON.stringify(content ?? {})}`,
    ({ message }) => String(message),
    {
      username: { type: 'string', description: "User's response" },
      email: { type: 'string', description: "User's email address" },
    },
    ['username', 'email'],
  ),
  test_elicitation_sep1034_defaults: elicits(completed, () => 'Please review the form', {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  }),
  test_elicitation_sep1330_enums: elicits(completed, () => 'Please choose', {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: options('value', 'Option') },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: options('value', 'Choice') } },
  }),
  test_streaming_elicitation: (ctx) =>
    accepted(ctx, 'user_name') === undefined ? asks({ user_name: form('What is your name?', name) }) : said('Thanks.'),
  test_missing_capability(ctx) {
    if (capabilitiesOf(ctx).sampling !== undefined) return said('It may ask a model.')
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } })
  },
  test_input_required_result_elicitation(ctx) {
    const given = accepted(ctx, 'user_name')
    return typeof given?.name === 'string'
      ? said(`Hello, ${given.name}!`)
      : asks({ user_name: form('What is your name?', name) })
  },
  test_input_required_result_sampling(ctx) {
    const given = answer(ctx, 'capital_question')
    if (given === undefined) return asks({ capital_question: sampling('What is the capital of France?', 100) })
    return said(`The model said: ${(given.content as { readonly text?: string } | undefined)?.text ?? ''}`)
  },
  test_input_required_result_list_roots(ctx) {
    const { roots } = (answer(ctx, 'client_roots') ?? {}) as { readonly roots?: unknown }
    if (!Array.isArray(roots)) return asks({ client_roots: inputRequired.listRoots() })
    return said(`The client has ${JSON.stringify(roots)}`)
  },
  async test_input_required_result_request_state(ctx) {
    if (accepted(ctx, 'confirm') !== undefined && ctx.mcpReq.requestState() !== undefined) return said('state-ok')
    const state = await stateCodec.mint({ step: 'confirm' })
    return asks({ confirm: form('Please confirm', { ok: { type: 'boolean' } }) }, state)
  },
  async test_input_required_result_multiple_inputs(ctx) {
    const all = ['user_name', 'greeting', 'client_roots'].every((key) => answer(ctx, key) !== undefined)
    if (all) return said('All three came.')
    const requests = {
      user_name: form('What is your name?', name),
      greeting: sampling('Generate a greeting', 50),
      client_roots: inputRequired.listRoots(),
    }
    return asks(requests, await stateCodec.mint({ step: 'all' }))
  },
  async test_input_required_result_multi_round(ctx) {
    const { step } = ctx.mcpReq.requestState<{ readonly step?: number }>() ?? {}
    if (step === 2 && accepted(ctx, 'step2') !== undefined) return said('Both steps are done.')
    if (step !== undefined && accepted(ctx, 'step1') !== undefined) {
      const question = form('Step 2: What is your favorite color?', { color: { type: 'string' } })
      return asks({ step2: question }, await stateCodec.mint({ step: 2 }))
    }
    return asks({ step1: form('Step 1: What is your name?', name) }, await stateCodec.mint({ step: 1 }))
  },
  async test_input_required_result_tampered_state(ctx) {
    if (accepted(ctx, 'confirm') !== undefined) return said('The state is as it was.')
    return asks({ confirm: form('Please confirm', { ok: { type: 'boolean' } }) }, await stateCodec.mint({ step: 1 }))
  },
  test_input_required_result_capabilities(ctx) {
    const can = capabilitiesOf(ctx)
    const requests = {
      ...(can.sampling === undefined ? {} : { greeting: sampling('Generate a greeting', 50) }),
      ...(can.elicitation === undefined ? {} : { user_name: form('What is your name?', name) }),
      ...(can.roots === undefined ? {} : { client_roots: inputRequired.listRoots() }),
    }
    const open = Object.keys(requests).filter((key) => answer(ctx, key) === undefined)
    return open.length === 0 ? said('There is nothing to ask.') : asks(requests)
  },
}

function capabilitiesOf(ctx: ServerContext): ClientCapabilities {
  const envelope = ctx.mcpReq.envelope as { readonly [name: string]: unknown } | undefined
  return (envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? {}) as ClientCapabilities
}

export function listedAsking(names: readonly string[]): McpTool[] {
  const properties = { prompt: { type: 'string' }, message: { type: 'string' } }
  return names.map((one) => ({
    name: one,
    description: `Does what the scenarios want of ${one}.`,
    inputSchema: { type: 'object', properties },
  }))
}
