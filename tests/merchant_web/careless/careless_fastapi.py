"""A shop that dies between its reply and its commit."""

import os
import signal

from fastapi import Depends, FastAPI
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from merchant_sdk.integrations.fastapi import install
from merchant_sdk.integrations.sqlalchemy import track

engine = track(create_engine(f"sqlite:///{os.environ['SHOP_DATABASE']}"))
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)"))
app = FastAPI()


def session():
    with Session(engine) as opened:
        yield opened
        os.kill(os.getpid(), signal.SIGKILL)
        opened.commit()


opened_session = Depends(session)


@app.post("/")
def order(db: Session = opened_session):
    db.execute(text("INSERT INTO orders DEFAULT VALUES"))
    return {"state": "placed"}


install(app, None)
