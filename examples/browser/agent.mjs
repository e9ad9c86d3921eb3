// An agent that `gtrxl export RUN --format onnx` wrote, in a browser or in Node: one step at a time, its memory fed back.
// Any exported agent will do; the card beside the file (agent.onnx.json) says what goes in and what comes out.

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, bool: Uint8Array };

export class Agent {
  static async load(ort, file) {
    const [card, graph] = await Promise.all([read(`${file}.json`, "json"), read(file, "arrayBuffer")]);
    return new Agent(ort, card, await ort.InferenceSession.create(new Uint8Array(graph), { executionProviders: ["wasm"] }));
  }

  constructor(ort, card, session) {
    Object.assign(this, { ort, card, session });
    this.begin();
  }

  // Before the first step of an episode: a memory of zeros. `reset` hides whatever it holds, so one may also keep the old one.
  begin() {
    this.reset = true;
    this.memory = {};
    for (const name of Object.values(this.card.fed_back)) this.memory[name] = this.tensor(name);
  }

  // `seen` has an array for each part of an observation; for most agents that is { observation: [...] }.
  async act(seen, { greedy = false } = {}) {
    const inputs = { ...this.memory, reset: this.tensor("reset", [this.reset]) };
    for (const [name, numbers] of Object.entries(seen)) inputs[name] = this.tensor(name, numbers);
    const said = await this.session.run(inputs);
    for (const [from, to] of Object.entries(this.card.fed_back)) this.memory[to] = said[from];
    this.reset = false;
    const logits = Array.from(said.logits.data);
    return { action: greedy ? said.action.data[0] : drawn(logits), logits, value: said.value.data[0] };
  }

  tensor(name, numbers) {
    const { dtype, shape } = this.card.inputs[name];
    const sizes = shape.map((size) => (size === "B" ? 1 : size));
    const array = new ARRAYS[dtype](sizes.reduce((a, b) => a * b, 1));
    if (numbers) array.set(numbers);
    return new this.ort.Tensor(dtype, array, sizes);
  }
}

// One of the actions, as likely as the policy says: the largest of logit and Gumbel noise.
function drawn(logits) {
  const noisy = logits.map((logit) => logit - Math.log(-Math.log(Math.random())));
  return noisy.indexOf(Math.max(...noisy));
}

async function read(file, how) {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error(`${file} cannot be read (${answer.status}): export an agent into this folder first`);
  return answer[how]();
}
