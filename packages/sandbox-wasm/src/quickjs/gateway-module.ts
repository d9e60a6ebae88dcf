/**
 * The API of a program with a gateway: `tools`, `run`, `chain`, `search`, `describe`, `examples`, `artifacts`, `print` and
 * `sleep`, written in the guest's own JavaScript. Only texts cross, and no program holds the functions that write them. At
 * quiescence the guest returns its state (`p`ending, `f`ulfilled, `r`ejected) and a line for each request, in the order of
 * their numbers; a response has the number of its request, negative for an error. Each step is optimized, because a
 * program may take it thousands of times.
 */
export const gatewayModule = String.raw`(given) => {
  'use strict'
  const { host, out, give, stringify, parse, strict, bytesOf, faultOf, ended } = given
  /** By number; undefined once it has its response. */
  const open = [undefined]
  const then = Promise.prototype.then
  const OwnError = Error
  const OwnPromise = Promise
  const { captureStackTrace } = Error
  const most = { questions: 20000, characters: 67108864 }
  const asked = []
  const restHeads = { p: 'p\n', f: 'f\n', r: 'r\n' }
  let [count, characters, state, last] = [0, 0, 'p', undefined]
  const settle = (how) => (value) => {
    if (state === 'p') [state, last] = [how, value]
  }

  class ToolError extends Error {
    constructor({ code, message, retryable, details }, place) {
      super(message)
      this.code = code
      this.retryable = retryable === true
      if (details !== undefined) this.details = details
      if (place !== undefined) this.stack = place
    }
  }
  Object.defineProperty(ToolError.prototype, 'name', { value: 'ToolError', writable: true, configurable: true })

  let [lastResolve, lastReject] = []
  /** One for all requests, because a function of its own for each would take a tenth of the time of a promise. */
  const hold = (resolve, reject) => {
    lastResolve = resolve
    lastReject = reject
  }
  /** Makes a request: a line of so much text in addition to its kind. */
  const put = (line, length, place) => {
    characters += length
    if (asked.length >= most.questions || characters > most.characters) throw new RangeError('too many pending requests; await some first')
    asked.push(line)
    const promise = new OwnPromise(hold)
    open[++count] = { resolve: lastResolve, reject: lastReject, place }
    return promise
  }
  const ask = (kind, text) => put(kind + ' ' + text, text.length, placeOf(ask))
  const noted = {}
  /**
   * Where the program asks by a function: the two places that called that. Every further one would take longer than all
   * else here, and so does an error with places inside this module, which are of no use to the author.
   */
  const placeOf = (caller) => {
    const limit = OwnError.stackTraceLimit
    OwnError.stackTraceLimit = 2
    captureStackTrace(noted, caller)
    OwnError.stackTraceLimit = limit
    return noted.stack
  }
  const { getPrototypeOf, keys } = Object
  const plain = Object.prototype
  /** By name, as the first member begins and as later ones do. */
  const firstHeads = Object.create(null)
  const laterHeads = Object.create(null)
  /**
   * Writes an object of texts and numbers, as most arguments are, in a third of the time; undefined for any other. It
   * stands between what is before it and an end that begins with its own, because each text that is joined costs.
   */
  const flatText = (before, value, end) => {
    if (typeof value !== 'object' || value === null || getPrototypeOf(value) !== plain) return undefined
    const names = keys(value)
    const { length } = names
    if (length === 0) return before + '{' + end
    let text = before
    let heads = firstHeads
    for (let index = 0; index < length; index++) {
      const key = names[index]
      const member = value[key]
      let head = heads[key]
      if (head === undefined) heads[key] = head = (index === 0 ? '{' : ',') + stringify(key) + ':'
      if (typeof member === 'number') {
        if (member - member !== 0) return undefined
        text += head + member
      } else if (typeof member === 'string') text += head + stringify(member)
      else if (typeof member === 'boolean') text += head + member
      else return undefined
      heads = laterHeads
    }
    return text + end
  }
  const anyText = (value, what) => {
    const text = stringify(value, strict)
    if (text === undefined) throw new TypeError(what + ' must be JSON')
    return text
  }
  const textOf = (value, what) => flatText('', value, '}') ?? anyText(value, what)
  const callHead = (quoted) => 'call {"tool":' + quoted + ',"args":'
  const kindLength = 'call '.length
  const call = (head, args, place) => {
    const given = args === undefined ? {} : args
    const line = flatText(head, given, '}}') ?? head + anyText(given, 'the arguments') + '}'
    return put(line, line.length - kindLength, place)
  }
  const run = (tool, args) => call(callHead(textOf(String(tool))), args, placeOf(run))
  const reserved = new Set(['then', 'toJSON'])
  const { defineProperty } = Reflect
  /** An object that makes its members when they are first looked for; what is there is found without asking its prototype. */
  const named = (make) => {
    const made = Object.create(new Proxy(Object.freeze(Object.create(null)), {
      get(_, name) {
        if (typeof name !== 'string' || reserved.has(name)) return undefined
        const value = make(name)
        defineProperty(made, name, { __proto__: null, value })
        return value
      },
      set: () => false,
    }))
    return made
  }
  const tools = named((namespace) => named((name) => {
    const head = callHead(stringify(namespace + ':' + name))
    const tool = (args) => call(head, args, placeOf(tool))
    return tool
  }))
  const timeText = (ms) => '{"ms":' + Math.min(ms, Number.MAX_SAFE_INTEGER) + '}'
  const sleep = (ms) => {
    if (typeof ms !== 'number' || !(ms >= 0 && ms < Infinity)) {
      throw new TypeError('sleep takes a number of milliseconds that is finite and not below 0')
    }
    return ask('sleep', timeText(ms)).then(() => undefined)
  }

  const timers = new Map()
  let lastTimer = 0
  const start = (repeat) => (work, ms = 0, ...values) => {
    if (typeof work !== 'function') throw new TypeError('The callback must be a function')
    const id = ++lastTimer
    // Timers take anything for a time, as everywhere.
    const wait = () => void ask('sleep', timeText(Number(ms) > 0 ? Number(ms) : 0)).then(() => {
      if (!timers.has(id)) return
      if (!repeat) timers.delete(id)
      work(...values)
      if (timers.has(id)) wait()
    }).catch(settle('r'))
    timers.set(id, true)
    wait()
    return id
  }
  const stop = (id) => void timers.delete(Number(id))

  const names = {
    ToolError, tools, run, sleep, print: out,
    chain: (steps, { input } = {}) => ask('chain', textOf({ steps, ...(input === undefined ? {} : { input }) })),
    search: (words, { limit } = {}) => ask('search', textOf({ words: String(words), ...(limit === undefined ? {} : { limit }) })),
    describe: (tool, { level } = {}) => ask('describe', textOf({ tool: String(tool), ...(level === undefined ? {} : { level }) })),
    examples: (tool) => ask('examples', textOf({ tool: String(tool) })),
    artifacts: Object.freeze({
      put: (name, content, { mimeType } = {}) => ask('artifact', textOf({ put: { name: String(name), ...contentOf(content), ...(mimeType === undefined ? {} : { mimeType: String(mimeType) }) } })),
      get: (id) => ask('artifact', textOf({ get: String(id) })),
    }),
    setTimeout: start(false), setInterval: start(true), setImmediate: (work, ...values) => start(false)(work, 0, ...values),
    clearTimeout: stop, clearInterval: stop, clearImmediate: stop,
  }
  const contentOf = (content) => {
    if (ArrayBuffer.isView(content) || content instanceof ArrayBuffer) return { base64: host.base64(bytesOf(content)) }
    return { content: typeof content === 'string' ? content : textOf(content, 'the content') }
  }
  return {
    begin() {
      for (const [name, value] of Object.entries(names)) give(name, value)
    },
    watch(promise) {
      then.call(promise, settle('f'), settle('r'))
    },
    deliver(signed, text) {
      const number = signed < 0 ? -signed : signed
      const waiting = open[number]
      open[number] = undefined
      const value = parse(text)
      if (signed > 0) waiting.resolve(value)
      else waiting.reject(new ToolError(value, waiting.place))
    },
    rest() {
      if (asked.length === 0) return state
      const said = restHeads[state] + (asked.length === 1 ? asked[0] : asked.join('\n'))
      asked.length = 0
      characters = 0
      return said
    },
    end: () => (state === 'f' ? ended(last) : faultOf(last)),
    errorOf: (error) => (error instanceof ToolError ? { code: error.code, message: error.message, retryable: error.retryable, details: error.details } : undefined),
  }
}`
