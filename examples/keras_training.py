"""Keras 3: f in front of any optimizer, with clipping and mixed precision; the saved model keeps it.

Runs on the torch backend; KERAS_BACKEND=jax or tensorflow chooses another.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")  # before keras is imported

import keras
import numpy as np

import gaf
from gaf.integrations.keras import activate

keras.utils.set_random_seed(0)
keras.config.set_dtype_policy("mixed_bfloat16")

points = np.random.default_rng(0).standard_normal((512, 8)).astype("float32")
labels = (points[:, 0] * points[:, 1] > 0).astype("int32")

model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(2)]
)
optimizer = activate(keras.optimizers.RMSprop(1e-2, global_clipnorm=1.0), gaf.Arctan(0.1, 20))
model.compile(
    optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
losses = model.fit(points, labels, batch_size=32, epochs=3, verbose=0).history["loss"]
print(f"on {keras.backend.backend()}, loss {losses[0]:.4f} -> {losses[-1]:.4f}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)  # gaf.integrations.keras must have been imported
print(f"loaded: {type(loaded.optimizer).__name__} with {loaded.optimizer.gaf_activation}")
more = loaded.fit(points, labels, batch_size=32, epochs=1, verbose=0).history["loss"]
print(f"trained on: loss {more[0]:.4f}")
