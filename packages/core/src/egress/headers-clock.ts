/**
 * Ends a request whose headers do not come in time: each piece of the request that goes out begins the time anew;
 * interim responses (1xx) do not.
 */
export class HeadersClock {
  readonly #ms: number
  readonly #expire: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number, expire: () => void) {
    this.#ms = ms
    this.#expire = expire
  }

  begin(): void {
    this.end()
    this.#timer = setTimeout(this.#expire, this.#ms)
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}
